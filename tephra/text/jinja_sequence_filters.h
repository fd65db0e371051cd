// SPDX-License-Identifier: Apache-2.0
// Filters on sequences and dicts; the table is in jinja_filters.cpp.
#pragma once

#include "tephra/text/jinja_builtin.h"

namespace tephra::jinja {

Value attr_filter(Call& call);
Value batch_filter(Call& call);
Value dictsort_filter(Call& call);
Value first_filter(Call& call);
Value groupby_filter(Call& call);
Value items_filter(Call& call);
Value join_filter(Call& call);
Value last_filter(Call& call);
Value length_filter(Call& call);
Value list_filter(Call& call);
Value map_filter(Call& call);
Value max_filter(Call& call);
Value min_filter(Call& call);
Value reject_filter(Call& call);
Value rejectattr_filter(Call& call);
Value reverse_filter(Call& call);
Value select_filter(Call& call);
Value selectattr_filter(Call& call);
Value slice_filter(Call& call);
Value sort_filter(Call& call);
Value sum_filter(Call& call);
Value unique_filter(Call& call);

}  // namespace tephra::jinja
