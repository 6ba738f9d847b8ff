"""The style sheet of a report's page: light and dark, wide and narrow."""

from __future__ import annotations

__all__ = ("STYLE",)

STYLE = """
:root{color-scheme:light dark;--bg:#f6f6f4;--card:#fff;--ink:#14140f;--soft:#5c5b55;--faint:#8b8a83;--rule:#e3e2dc;
--grid:#ecebe6;--base:#c6c5bd;--a:#2a78d6;--b:#eb6834;--wash:#2a78d61f;--good:#0a7d33;--goodbg:#e4f5e8;--bad:#c62f2f;
--badbg:#fdeaea;--warn:#8a5a00;--warnbg:#fdf2d9;--tip:#1c1c1a;--tipink:#fff;
--shadow:0 1px 2px #00000010,0 4px 16px #0000000a}
@media (prefers-color-scheme:dark){:root{--bg:#121211;--card:#1c1c1a;--ink:#f4f4f0;--soft:#b9b8b0;--faint:#8d8c85;
--rule:#32322e;--grid:#292926;--base:#4a4a45;--a:#4c93ea;--b:#ea7a4a;--wash:#4c93ea26;--good:#55cf7c;--goodbg:#12301c;
--bad:#ff7a74;--badbg:#3a1a1a;--warn:#f0bd5a;--warnbg:#352810;--tip:#f4f4f0;--tipink:#14140f;
--shadow:0 0 0 1px #32322e}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:36px 24px 56px}
header p{margin:0;color:var(--soft)}
.brand{font-size:13px;font-weight:600;letter-spacing:.02em;color:var(--a)!important}
h1{margin:4px 0 6px;font-size:26px;line-height:1.25;font-weight:650;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{margin:0 0 4px;font-size:17px;font-weight:650}
h3{margin:0 0 10px;font-size:14px;font-weight:600}
section,.tile{background:var(--card);border-radius:12px;box-shadow:var(--shadow)}
section{margin-top:18px;padding:20px 22px 22px;min-width:0}
.lead{margin:0 0 14px;color:var(--soft);max-width:78ch}
.lead:last-child{margin-bottom:0}
.says{display:flex;gap:10px;align-items:baseline;margin:18px 0 0;padding:11px 16px;border-radius:10px;
overflow-wrap:anywhere}
.says+.says{margin-top:8px}
.says b{flex:none}
.says span{min-width:0}
.good{background:var(--goodbg);color:var(--good)}
.bad{background:var(--badbg);color:var(--bad)}
.warn{background:var(--warnbg);color:var(--warn)}
.plain{background:var(--grid);color:var(--soft)}
section .says{margin:0 0 14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(158px,1fr));gap:12px;margin-top:18px}
.tile{padding:14px 18px 15px;min-width:0}
.tile p{margin:0;font-size:13px;color:var(--soft)}
.tile .value{margin:2px 0 0;font-size:26px;font-weight:650;line-height:1.25;color:var(--ink);letter-spacing:-.01em;
white-space:nowrap}
.tile .value small{font-size:15px;font-weight:500;color:var(--soft);letter-spacing:0}
.tile .change{margin-top:2px}
.up{color:var(--good)!important}.down{color:var(--bad)!important}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:24px 30px}
figure{margin:0;min-width:0}
figcaption{margin:0 0 8px;font-weight:600;font-size:14px}
figcaption small{font-weight:400;font-size:13px;color:var(--soft)}
.key{display:inline-flex;align-items:center;gap:6px;margin-left:12px;font-size:13px;color:var(--soft);font-weight:400;
overflow-wrap:anywhere}
.key i{flex:none;width:14px;height:3px;border-radius:2px;background:var(--a)}
.key i.b{background:var(--b)}.key i.bad{background:var(--bad);height:9px;width:9px}
svg.chart{display:block;width:100%;height:auto;overflow:hidden;font-size:12px;
font-variant-numeric:tabular-nums}
svg text{fill:var(--soft);font-family:inherit}
.grid{stroke:var(--grid);stroke-width:1}.base{stroke:var(--base);stroke-width:1}
.mark{stroke:var(--faint);stroke-width:1;stroke-dasharray:3 3}
svg text.name{font-size:11px}
.line{fill:none;stroke:var(--a);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.line.b{stroke:var(--b)}
.area{fill:var(--wash);stroke:none}
.bar,.dot{fill:var(--a)}.bar.b,.dot.b{fill:var(--b)}.bar.bad{fill:var(--bad)}
.dot{stroke:var(--card);stroke-width:2}
.band{fill:transparent}
.tip{visibility:hidden;pointer-events:none}
.hit:hover .tip{visibility:visible}
.hit:hover .band{fill:#80808014}
.tip rect{fill:var(--tip)}.tip text{fill:var(--tipink)}
.cursor{stroke:var(--faint);stroke-width:1}
.scroll{overflow-x:auto;margin:0 -22px;padding:0 22px}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{padding:8px 14px 8px 0;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule);vertical-align:top;
font-variant-numeric:tabular-nums}
tr:last-child>*{border-bottom:0}
th{font-weight:500;color:var(--soft);font-size:13px}
th:first-child,td:first-child,.text{text-align:left}
tbody th{color:var(--ink);font-size:14px;font-weight:500}
td:last-child,th:last-child{padding-right:0}
.wide{white-space:normal;overflow-wrap:anywhere;min-width:200px}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
code{overflow-wrap:anywhere}
.tag{display:inline-block;padding:1px 9px;border-radius:20px;font-size:12.5px;font-weight:550}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));gap:14px 26px;margin:14px 0 0}
dt{font-size:13px;color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
details{margin-top:16px}
summary{cursor:pointer;color:var(--soft);font-size:13.5px}
details .scroll{margin-top:10px;max-height:340px;overflow-y:auto}
footer{margin-top:22px;color:var(--faint);font-size:13px}
.share{display:inline-block;width:70px;height:7px;border-radius:4px;background:var(--grid);vertical-align:middle;
margin-right:9px;overflow:hidden}
.share i{display:block;height:100%;background:var(--a);border-radius:4px}
.change-bar{display:inline-block;vertical-align:middle;width:150px;height:18px}
.change-bar .zone{fill:var(--grid)}.change-bar .zero{stroke:var(--base)}
.change-bar .better{fill:var(--good)}.change-bar .worse{fill:var(--bad)}
.change-bar .noise,.change-bar .unclear,.change-bar .shown{fill:var(--faint)}
@media (max-width:760px){main{padding:22px 14px 40px}section{padding:16px 16px 18px;border-radius:10px}
.pair{grid-template-columns:minmax(0,1fr)}h1{font-size:21px}.tiles{grid-template-columns:1fr 1fr;gap:10px}
.tile{padding:11px 14px 12px}.tile .value{font-size:21px}.scroll{margin:0 -16px;padding:0 16px}
.tile:first-child:nth-last-child(odd){grid-column:1/-1}
svg.chart{font-size:17px}svg text.name{font-size:15px}.opt{display:none}.change-bar{width:90px}}
@media (max-width:340px){.tiles{grid-template-columns:1fr}}
@media print{body{background:#fff}section,.tile{box-shadow:none;border:1px solid #ddd;break-inside:avoid}}
"""
