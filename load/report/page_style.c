/* SPDX-License-Identifier: MIT */
/*
 * page_style.c - how a page looks; see page_parts.h.
 *
 * --plot-N are the colours that plots name: 0 ink, 1 axes, 2 grid, 3 faults, 4 expiries, 5 failures, 16 and on the
 * results. The results' are apart for all kinds of colour blindness (after Okabe and Ito), darker on white and lighter
 * on black than theirs so that lines have a contrast of 3 to 1 at least.
 */
#include "load/report/page_parts.h"

#define LIGHT                                                                                                \
    "--paper:#fff;--ink:#1a1e24;--soft:#59626e;--line:#d5dae0;--card:#f5f7f9;"                               \
    "--good:#0b6b3f;--good-card:#e6f4ec;--bad:#a8200d;--bad-card:#fdebe7;"                                   \
    "--plot-0:#3c444e;--plot-1:#8b949f;--plot-2:#e4e8ec;--plot-3:#6b5b95;--plot-4:#98a1ac;--plot-5:#a8200d;" \
    "--plot-16:#d55e00;--plot-17:#0072b2;--plot-18:#008a63;--plot-19:#b04a86;--plot-20:#9a7400;"             \
    "--plot-21:#2a8cc4;--plot-22:#4d4d4d;--plot-23:#7d4a22;"

#define DARK                                                                                                 \
    "--paper:#12151a;--ink:#e8ebef;--soft:#a3adb8;--line:#323944;--card:#1b2027;"                            \
    "--good:#63d49a;--good-card:#12301f;--bad:#ff8d78;--bad-card:#3a1913;"                                   \
    "--plot-0:#c3cad2;--plot-1:#77818d;--plot-2:#2a313a;--plot-3:#b7a6e6;--plot-4:#76808c;--plot-5:#ff8d78;" \
    "--plot-16:#ff8a33;--plot-17:#4fb3f0;--plot-18:#2bc795;--plot-19:#e48fc0;--plot-20:#e0b83a;"             \
    "--plot-21:#86cdf5;--plot-22:#c9c9c9;--plot-23:#d09a6a;"

const char *const style_lines[] = {
    ":root{color-scheme:light dark;" LIGHT "}",
    "@media screen and (prefers-color-scheme:dark){:root{" DARK "}}",
    "*{box-sizing:border-box}",
    "html{-webkit-text-size-adjust:100%;text-size-adjust:100%}",
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:1rem/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",\"DejaVu Sans\",sans-serif}",
    "main,header,footer{max-width:68rem;margin:0 auto;padding:0 1rem}",
    "header{padding-top:1.5rem}",
    "h1{font-size:clamp(1.5rem,5vw,2.1rem);line-height:1.2;margin:0 0 .5rem;overflow-wrap:anywhere}",
    "h2{font-size:1.25rem;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}",
    "h3{font-size:1.05rem;margin:0;overflow-wrap:anywhere}",
    "p{margin:.5rem 0;max-width:46rem;overflow-wrap:anywhere}",
    ".soft,figcaption,caption{color:var(--soft);font-size:.9rem}",
    ".verdict{display:inline-block;margin:.75rem 0;padding:.35rem "
    ".8rem;border-radius:.5rem;font-weight:600}",
    ".good{color:var(--good)}.bad{color:var(--bad)}",
    ".verdict.good{background:var(--good-card)}.verdict.bad{background:var(--bad-card)}",
    ".verdict.none{background:var(--card);color:var(--soft)}",
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr));gap:.75rem;"
    "margin:1rem 0 0}",
    ".card{background:var(--card);border-left:.3rem solid var(--series);border-radius:.4rem;"
    "padding:.75rem 1rem;min-width:0;max-width:26rem}",
    ".big{font-size:2rem;line-height:1.15;margin:.35rem 0 .5rem;font-variant-numeric:tabular-nums}",
    ".big small{display:block;font-size:.9rem;color:var(--soft)}",
    "dl{display:grid;grid-template-columns:auto 1fr;gap:.1rem .75rem;margin:0;font-size:.95rem}",
    "dt{color:var(--soft)}dd{margin:0;text-align:right;font-variant-numeric:tabular-nums}",
    "dl.facts{margin:.75rem 0;max-width:46rem}dl.facts dd{text-align:left}"
    "dl.facts{grid-template-columns:fit-content(40%) 1fr}dl.facts dt,dl.facts "
    "dd{overflow-wrap:anywhere;min-width:0}",
    ".swatch{width:1.9em;height:.7em;vertical-align:baseline;margin-right:.4em}",
    "table{border-collapse:collapse;width:100%;margin:.75rem 0;font-size:.95rem}",
    "caption{text-align:left;padding-bottom:.25rem}",
    "th,td{padding:.28rem .5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}",
    "thead th{border-bottom:2px solid var(--line);vertical-align:bottom}",
    ".figures{table-layout:fixed}",
    ".figures th,.figures td{overflow-wrap:break-word}",
    ".figures tbody th{font-weight:400}.figures td,.figures thead th:not(:first-child){text-align:right;"
    "font-variant-numeric:tabular-nums}",
    ".figures col:first-child{width:34%}",
    ".figures .part th{padding-left:1.5rem;color:var(--soft)}",
    ".figures .headline th,.figures .headline td,.figures .heading th{font-weight:650}",
    ".figures .heading th{padding-top:.8rem}",
    ".checks{table-layout:fixed}.checks th,.checks td{overflow-wrap:break-word}",
    ".checks .who{width:18%}.checks .measured{width:25%}.checks .judged{width:24%}",
    ".held{white-space:nowrap;font-weight:650}",
    "figure{margin:1.25rem 0 0;min-width:0}",
    "h2+figure{margin-top:.25rem}",
    "figure svg[role=img]{display:block;width:100%;height:auto}",
    "figure svg g{font-family:inherit}",
    "figcaption{margin:0 0 .4rem}figcaption h3{color:var(--ink)}",
    ".narrow{display:none}",
    ".legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;margin:.5rem 0;padding:0;"
    "font-size:.9rem}",
    ".legend li{overflow-wrap:anywhere;min-width:0}",
    ".events{margin:.25rem 0 0;padding-left:2rem;font-size:.92rem}",
    ".events li{overflow-wrap:anywhere}.events .when{font-variant-numeric:tabular-nums;color:var(--soft);"
    "margin-right:.5em}",
    "pre{background:var(--card);border-radius:.4rem;padding:.7rem .9rem;white-space:pre-wrap;"
    "overflow-wrap:anywhere;font:.9rem/1.45 ui-monospace,\"DejaVu Sans Mono\",monospace}",
    "footer{margin-top:2.5rem;padding-bottom:2rem}",
    "@media (max-width:640px){.wide{display:none}.narrow{display:block}"
    "table{font-size:.84rem}th,td{padding:.28rem .3rem}.figures .part th{padding-left:.8rem}}",
    "@page{margin:14mm}",
    "@media print{body{font-size:10pt}main,header,footer{max-width:none;padding:0}.wide{display:block}"
    ".narrow{display:none}h2{margin-top:1.25rem;break-after:avoid}.checks{break-inside:avoid}"
    ".cards{grid-template-columns:repeat(auto-fit,minmax(11rem,1fr))}figure,.card,tr{break-inside:avoid}"
    ".card,.verdict,pre,figure svg{print-color-adjust:exact;-webkit-print-color-adjust:exact}}",
    NULL,
};
