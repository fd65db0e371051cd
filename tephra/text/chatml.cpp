// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/chatml.h"

namespace tephra {

const std::string_view kChatmlTemplate = R"jinja({%- for message in messages -%}
    {{- '<|im_start|>' ~ message.role ~ '\n' -}}
    {%- if message.role == 'assistant' -%}
        {%- generation -%}
        {%- if message.reasoning_content -%}
            {{- '<think>\n' ~ message.reasoning_content ~ '\n</think>\n\n' -}}
        {%- endif -%}
        {{- message.content ~ '<|im_end|>' -}}
        {%- endgeneration -%}
    {%- else -%}
        {{- message.content ~ '<|im_end|>' -}}
    {%- endif -%}
    {{- '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
{%- endif -%}
)jinja";

}  // namespace tephra
