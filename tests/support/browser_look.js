/* SPDX-License-Identifier: MIT */
/* browser_look.js - what browser_faults() looks for; its value is a line for each fault. */
(() => {
    'use strict';
    const faults = new Set();
    const seen = [...document.querySelectorAll('body, body *')].filter(element =>
        element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && element.getClientRects().length > 0);
    const nameOf = element => `<${element.tagName.toLowerCase()} class="${element.getAttribute('class') ?? ''}"> `
        + `"${element.textContent.trim().slice(0, 40)}"`;

    /* ---- width ---- */

    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) faults.add(`the page is ${document.documentElement.scrollWidth} wide, the screen ${width}`);
    for (const element of seen) {
        const { left, right } = element.getBoundingClientRect();
        /* what is within an svg is cut off at its edge */
        if (!element.ownerSVGElement && (left < -1 || right > width + 1)) faults.add(`beyond the screen: ${nameOf(element)}`);
    }

    /* ---- contrast ---- */

    const rgbaOf = text => {
        const numbers = text.match(/[\d.]+/g).map(Number);
        return [numbers[0], numbers[1], numbers[2], numbers[3] ?? 1];
    };
    const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
    const behind = element => {
        const layers = [];
        for (let at = element; at !== null; at = at.parentElement) layers.push(rgbaOf(getComputedStyle(at).backgroundColor));
        return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    for (const element of seen) {
        if (![...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim() !== '')) continue;
        const style = getComputedStyle(element), ground = behind(element);
        const colour = rgbaOf(element.namespaceURI.endsWith('svg') ? style.fill : style.color);
        const [a, b] = [light(over(colour, ground)), light(ground)];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
        const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
        if (contrast < least) faults.add(`contrast of ${contrast.toFixed(1)}: ${nameOf(element)}`);
    }

    /* ---- names ---- */

    for (const element of seen.filter(one => one.matches('button, input, select, textarea, a[href], [tabindex]'))) {
        const name = element.getAttribute('aria-label') ?? (element.labels?.[0] ?? element).textContent;
        if (name.trim() === '') faults.add(`without a name: ${nameOf(element)}`);
    }
    return [...faults].join('\n');
})()
