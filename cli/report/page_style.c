/*
 * page_style — see page_style.h.
 *
 * Colors are defined once, for light and for dark mode. Widths are in rem, so everything scales
 * with the font size. Grids place as many items in a row as fit; a table wider than the window
 * scrolls by itself.
 */
#include "cli/report/page_style.h"

const char page_style[] =
    ":root { color-scheme: light dark; --ground: #f6f7f8; --card: #fff; --ink: #1b1f23; --soft: "
    "#57606a;\n"
    "  --line: #d8dee4; --one: #0969da; --two: #bc4c00 }\n"
    "@media (prefers-color-scheme: dark) { :root { --ground: #0d1117; --card: #161b22; --ink: "
    "#e6edf3;\n"
    "  --soft: #9aa4ae; --line: #30363d; --one: #58a6ff; --two: #ffa657 } }\n"
    /* the page */
    "* { box-sizing: border-box }\n"
    "body { margin: 0 auto; padding: 1rem; max-width: 88rem; background: var(--ground); color: "
    "var(--ink);\n"
    "  font: 1rem/1.5 system-ui, sans-serif }\n"
    "h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere }\n"
    "h2 { font-size: 1.1rem; margin: 0 0 .25rem }\n"
    "header p, .note { margin: 0 0 .75rem; color: var(--soft) }\n"
    "section { margin: 1rem 0; padding: 1rem; background: var(--card);\n"
    "  border: 1px solid var(--line); border-radius: .5rem }\n"
    /* facts */
    "dl { display: grid; margin: 0; gap: .75rem 1rem;\n"
    "  grid-template-columns: repeat(auto-fill, minmax(min(100%, 11.5rem), 1fr)) }\n"
    "dt { color: var(--soft); font-size: .85rem }\n"
    "dd { margin: 0; font-size: 1.1rem; overflow-wrap: anywhere }\n"
    /* tables */
    ".wide { overflow: auto; max-height: 32rem }\n"
    "table { border-collapse: collapse; font-size: .9rem }\n"
    "caption { margin-bottom: .25rem; color: var(--soft); text-align: left }\n"
    "th, td { padding: .2rem 1.25rem .2rem 0; text-align: left; vertical-align: top; white-space: "
    "nowrap;\n"
    "  border-bottom: 1px solid var(--line) }\n"
    "th { position: sticky; top: 0; background: var(--card); color: var(--soft); font-weight: 600 "
    "}\n"
    ".n { text-align: right; font-variant-numeric: tabular-nums }\n"
    ".b { min-width: 6rem; width: 24rem }\n"
    ".b span { display: block; height: .8rem; min-width: 1px; margin-top: .35rem; border-radius: "
    "2px;\n"
    "  background: var(--one) }\n"
    /* samples */
    ".sheet { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fill, minmax(8rem, "
    "1fr)) }\n"
    "figure { margin: 0; min-width: 0; font-size: .8rem; line-height: 1.3 }\n"
    "figure b { overflow-wrap: anywhere; unicode-bidi: isolate }\n"
    ".sheet img, .sheet .none { display: block; width: 100%; height: 8rem; margin-bottom: .25rem;\n"
    "  object-fit: contain; background: var(--ground); border-radius: .25rem }\n"
    ".sheet .none { padding: .5rem; overflow: hidden; color: var(--soft) }\n"
    ".words { display: block; overflow-wrap: anywhere; unicode-bidi: isolate }\n"
    ".key { display: block; color: var(--soft); overflow-wrap: anywhere; unicode-bidi: isolate }\n"
    "pre { margin: .25rem 0 1rem; padding: .75rem; max-height: 24rem; overflow: auto; font-size: "
    ".85rem;\n"
    "  background: var(--ground); border-radius: .25rem; white-space: pre-wrap; overflow-wrap: "
    "anywhere }\n"
    "mark { background: none; color: var(--two) }\n"
    /* charts */
    ".charts { display: grid; gap: 1.25rem;\n"
    "  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)) }\n"
    "figcaption { font-size: .9rem; margin-bottom: .25rem }\n"
    "svg { display: block; width: 100%; height: auto; max-width: 44rem }\n"
    "svg text { fill: var(--soft); font: 12px system-ui, sans-serif }\n"
    ".charts figure { display: flex; flex-direction: column; justify-content: space-between }\n"
    ".legend { color: var(--soft); white-space: nowrap; margin-left: .5rem }\n"
    ".legend svg { display: inline; width: 1.75rem; height: .6rem; margin-right: .25rem }\n"
    ".grid { stroke: var(--line) }\n"
    ".axis { stroke: var(--soft) }\n"
    ".line { fill: none; stroke-width: 1.75; stroke-linejoin: round }\n"
    ".s0 { stroke: var(--one) }\n"
    ".s1 { stroke: var(--two); stroke-dasharray: 6 3 }\n"
    ".d0, .column { fill: var(--one) }\n"
    ".d1 { fill: var(--two) }\n"
    ".hit { fill: transparent }\n"
    ".mark { fill: var(--soft) }\n";
