// SPDX-License-Identifier: Apache-2.0
// CSS of the report: light or dark as the reader's system is, one column on a phone.
#include "tephra/train/report_text.h"

namespace tephra {

const std::string_view kReportStyle = R"css(
:root{--bg:#f6f5f2;--card:#fff;--ink:#1d1f23;--dim:#666b75;--line:#e3e1db;--grid:#ecebe6;--accent:#b4491f;
--s0:#b4491f;--s1:#2364a8;--s2:#2f7d4f;--s3:#8a4fa3;--s4:#9a7a10;--s5:#0f7f8a;--bad:#c0241f;--band:.16;
--h0:#f4efe6;--h1:#f0b27a;--h2:#c8501e;--h3:#5a1606;--cold:#2364a8;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--bg:#141518;--card:#1d1f23;--ink:#e9e7e2;--dim:#9a9fa8;--line:#2f3238;
--grid:#292c32;--accent:#f08a55;--s0:#f08a55;--s1:#6aaef0;--s2:#6cc48f;--s3:#c493dc;--s4:#d9b94a;--s5:#55c3ce;
--bad:#ff6b61;--band:.2;--h0:#23252a;--h1:#7a3a1c;--h2:#e0703a;--h3:#ffe3c2;--cold:#6aaef0}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
-webkit-text-size-adjust:100%}
main{max-width:1500px;margin:0 auto;padding:1.1rem 1rem 3rem}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:.3rem .9rem;margin-bottom:.9rem}
h1{font-size:1.45rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:1.8rem 0 .7rem}
h3{font-size:.92rem;margin:0;font-weight:600}
.dim{color:var(--dim);font-size:.86rem}
.state{border:1px solid var(--line);border-radius:99px;padding:.05rem .6rem;font-size:.8rem;background:var(--card)}
.state.on{color:var(--s2);border-color:var(--s2)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.6rem,1fr));gap:.6rem}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.55rem .75rem;min-width:0}
.tile b{display:block;font-size:1.22rem;font-weight:650;font-variant-numeric:tabular-nums;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.tile span{color:var(--dim);font-size:.78rem;display:block}
.bar{display:flex;flex-wrap:wrap;gap:.5rem 1.2rem;align-items:center;margin:1.1rem 0 .7rem}
.seg{display:inline-flex;border:1px solid var(--line);border-radius:8px;overflow:hidden;background:var(--card)}
.seg button,.card button{font:inherit;font-size:.82rem;border:0;background:none;color:var(--dim);padding:.32rem .7rem;cursor:pointer}
.seg button[aria-pressed=true]{background:var(--accent);color:var(--card);font-weight:600}
.card button{border:1px solid var(--line);border-radius:7px;padding:.12rem .5rem;font-size:.74rem}
.card button[aria-pressed=true]{color:var(--ink);border-color:var(--dim)}
.bar label{display:inline-flex;gap:.5rem;align-items:center;font-size:.82rem;color:var(--dim)}
input[type=range]{width:8rem;accent-color:var(--accent)}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:.8rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:.7rem .8rem .5rem;min-width:0;position:relative}
.card.wide{grid-column:1/-1}
.head{display:flex;justify-content:space-between;align-items:center;gap:.6rem;min-height:1.7rem}
.legend{display:flex;flex-wrap:wrap;gap:.1rem .9rem;font-size:.78rem;color:var(--dim);min-height:1.2rem;font-variant-numeric:tabular-nums}
.legend i{display:inline-block;width:.75rem;height:.2rem;border-radius:2px;margin-right:.35rem;vertical-align:middle}
.legend b{color:var(--ink);font-weight:600}
svg{display:block;width:100%;touch-action:pan-y;overflow:visible}
svg text{fill:var(--dim);font-size:11px;font-variant-numeric:tabular-nums}
.tip{font-size:.8rem;color:var(--dim);min-height:1.25rem;font-variant-numeric:tabular-nums}
.scale{display:flex;align-items:center;gap:.5rem;font-size:.78rem;color:var(--dim);margin:.3rem 0}
.scale i{flex:0 0 9rem;height:.6rem;border-radius:4px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.84rem;font-variant-numeric:tabular-nums}
th,td{padding:.28rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--card)}
thead th{color:var(--dim);font-weight:500}
.note{border-left:3px solid var(--bad);background:var(--card);padding:.5rem .8rem;border-radius:0 8px 8px 0;margin:.4rem 0;font-size:.86rem;overflow-wrap:anywhere}
details{background:var(--card);border:1px solid var(--line);border-radius:10px;margin:.5rem 0}
summary{cursor:pointer;padding:.55rem .8rem;font-weight:600;font-size:.9rem}
pre{margin:0;padding:.2rem .9rem .8rem;overflow-x:auto;font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
@media(max-width:600px){main{padding:.8rem .6rem 2rem}h1{font-size:1.2rem}.grid{gap:.6rem}.card{padding:.6rem .55rem .4rem}
.seg button{padding:.45rem .8rem}.tiles{grid-template-columns:repeat(2,1fr)}}
@media print{body{background:#fff}.bar,.card button{display:none}.card,details{break-inside:avoid}}
)css";

}  // namespace tephra
