"""The style sheet that drawings of rows share: colours with a dark variant, node and edge classes."""

STYLE = """
.ap{--ink:#33373d;--soft:#a3a9b2;--page:#ffffff;--path:#1f6fb2;--start:#d97a00;--goal:#1f6fb2;
--right:#1a8754;--wrong:#c8322b}
@media (prefers-color-scheme:dark){.ap{--ink:#e4e6ea;--soft:#6f7681;--page:#1d2025;--path:#63b3f5;--start:#f2a33a;
--goal:#63b3f5;--right:#4cc38a;--wrong:#ff7a70}}
.ap text{font:600 11px system-ui,sans-serif;fill:var(--ink);text-anchor:middle;dominant-baseline:central}
.ap .word{text-anchor:start;font-weight:500;font-size:12px}
.ap .edge{stroke:var(--soft);stroke-width:1.3;fill:none}.ap .tip{fill:var(--soft)}
.ap .edge.path{stroke:var(--path);stroke-width:3}.ap .tip.path{fill:var(--path)}
.ap .node{fill:var(--page);stroke:var(--soft);stroke-width:1.4}.ap .node.path{stroke:var(--path);stroke-width:2}
.ap .start{fill:var(--start);stroke:var(--start)}.ap .goal{fill:var(--goal);stroke:var(--goal)}
.ap .ring{fill:none;stroke-width:2.6}.ap .ring.right{stroke:var(--right)}
.ap .ring.wrong{stroke:var(--wrong);stroke-dasharray:4 3}
.ap .right-word{fill:var(--right)}.ap .wrong-word{fill:var(--wrong)}.ap text.on{fill:var(--page)}
"""
