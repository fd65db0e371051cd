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

// Each task was a text of its own, so nothing but its question stands before an answer.
const std::string_view kTasksTemplate =
    R"jinja({%- set questions = messages | selectattr('role', 'equalto', 'user') | list -%}
{%- if questions -%}
    {{- questions[-1].content ~ '\n' -}}
{%- endif -%}
{%- if messages[-1].role == 'assistant' -%}
    {%- generation -%}
    {{- messages[-1].content ~ eos_token -}}
    {%- endgeneration -%}
{%- endif -%}
)jinja";

}  // namespace tephra
