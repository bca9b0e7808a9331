/* SPDX-License-Identifier: MIT */
/*
 * page_test.js - looks at a page of a report and does to it what a reader does.
 *
 * page_test.c evaluates it in the page, with a probe behind it, which uses what is below and says what it expects.
 * What is shown is asked of the DOM only: an instant is where the tics say it is, not where the page's script thinks.
 * What is not as expected is a line in `wrong`.
 */
'use strict';

const d = document, view = window, wrong = [];
const is = (what, seen, expected) => {
    const [a, b] = [seen, expected].map(one => JSON.stringify(one));
    if (a !== b) wrong.push(`${what}: ${a} instead of ${b}`);
};
const near = (what, seen, expected, most) => {
    if (!(Math.abs(seen - expected) <= most)) wrong.push(`${what}: ${seen} instead of ${expected}`);
};

const rect = element => element.getBoundingClientRect();
const all = (selector, root = d) => [...root.querySelectorAll(selector)];
const plots = () => all('.plot');
const figure = n => plots()[n].closest('figure');

/* ---- axes ---- */

const units = { 'µs': 1, ms: 1e3, s: 1e6 };
/* "2 s" is 2000000 of microseconds, "100" is 100. */
const numberOf = text => {
    const [, digits, unit] = /^([\d.\u00a0]+) ?(µs|ms|s)?$/.exec(text);
    return Number(digits.replace(/\u00a0/g, '')) * (unit === undefined ? 1 : units[unit]);
};
const middle = (element, isDown) => isDown ? (rect(element).top + rect(element).bottom) / 2 : (rect(element).left + rect(element).right) / 2;
const ticsOf = (n, anchor) => all(`svg[role=img] > text[text-anchor=${anchor}]`, plots()[n]).map(text => [numberOf(text.textContent), text]);
const across = n => ticsOf(n, 'middle');
const up = n => ticsOf(n, 'end');

/* By two tics, the first and the last, which say it. */
const scale = (tics, isDown, isLog) => {
    const [one, other] = [tics[0], tics.at(-1)].map(([value, text]) => [isLog ? Math.log(value) : value, middle(text, isDown)]);
    const factor = (other[0] - one[0]) / (other[1] - one[1]);
    return {
        valueAt: pixel => { const value = one[0] + (pixel - one[1]) * factor; return isLog ? Math.exp(value) : value; },
        pixelOf: value => one[1] + ((isLog ? Math.log(value) : value) - one[0]) / factor,
    };
};
const time = n => scale(across(n), false, false);
/* ---- what is drawn ---- */

const drawn = (n, selector) => all(selector, plots()[n]).length;
const placesOf = path => [...path.getAttribute('d').matchAll(/[ML]([-\d.]+) ([-\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);
/* Of all lines of that kind, in pixels of the screen. */
const points = (n, selector) => all(selector, plots()[n]).flatMap(path => {
    const box = rect(plots()[n].firstElementChild);
    return placesOf(path).map(([x, y]) => [box.left + x, box.top + y]);
});

/* ---- the reader ---- */

const fire = (n, type, pixel, kind = 'mouse', finger = 1) => plots()[n].dispatchEvent(new view.PointerEvent(type, {
    bubbles: true, cancelable: true, pointerId: finger, pointerType: kind, isPrimary: finger === 1,
    button: type === 'pointermove' ? -1 : 0, clientX: pixel, clientY: middle(plots()[n], true) }));
const point = (n, at) => fire(n, 'pointermove', time(n).pixelOf(at));
const press = (n, key, more = {}) =>
    plots()[n].dispatchEvent(new view.KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));
const values = n => all('.value', figure(n)).map(value => value.textContent.replace(/\u00a0/g, ' '));
const hair = n => { const [line] = all('.hair', plots()[n]); return line === undefined ? null : time(n).valueAt(middle(line, false)); };

/* ---- what is wrong with any page, and what should be there ---- */

const within = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const overlap = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;

const measure = count => {
    const width = d.documentElement.clientWidth, isSeen = element => rect(element).width > 0;
    const seen = all('figure svg[role=img]').filter(isSeen), texts = seen.flatMap(plot => all('text', plot));
    const isMute = plot => {
        const box = rect(plot), boxes = all('text', plot).map(rect);
        return boxes.filter(one => one.top > box.bottom - box.height * 0.16).length < 2 ||
            boxes.filter(one => one.left < box.left + box.width * 0.15).length < 2;
    };
    const paints = element => ['stroke', 'fill'].some(what => getComputedStyle(element)[what] !== 'none');
    const ids = all('[id]').map(element => element.id);
    const none = (what, list) => is(what, list.length, 0);
    is('plots', seen.length, count);
    none('unlabelled', all('.plot').filter(plot => !plot.ariaLabel || plot.tabIndex !== 0 || !plot.firstElementChild.ariaLabel));
    none('flat', seen.filter(plot => rect(plot).height < 150 || rect(plot).width < width * 0.75 && rect(plot).width < 900));
    none('undrawn', seen.filter(plot => !all('.line, .fill', plot).some(line => paints(line) && rect(line).width + rect(line).height > 50)));
    none('mute', seen.filter(isMute));
    none('unpainted', all('figure path, figure rect, figure circle').filter(one => !paints(one)));
    none('clipped', texts.filter(text => !within(rect(text), rect(text.ownerSVGElement))));
    none('tiny', texts.filter(text => parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a < 10));
    none('crowded', seen.flatMap(plot => ['middle', 'end'].flatMap(anchor => all(`text[text-anchor=${anchor}]`, plot)
        .filter((text, i, list) => i > 0 && overlap(rect(text), rect(list[i - 1]))))));
    none('covered', seen.filter(plot => all('.values li, figcaption', plot.closest('figure')).some(one => overlap(rect(one), rect(plot)))));
    none('same', ids.filter((id, i) => ids.indexOf(id) < i));
    none('headless', all('table').filter(table => !table.tHead || all('th[scope]', table).length === 0));
    is('scripts', all('script').filter(one => one.type !== 'application/json').length, 1);
    none('foreign', all('img, link, iframe, object, embed, base, form, meta[http-equiv=refresh]'));
    is('alarm', view.alarm, undefined);
};

/* Whoever found a way to put markup into the page: it does nothing there. */
const smuggle = () => {
    const script = d.createElement('script'), button = d.createElement('button');
    script.textContent = 'alarm = 1';
    button.setAttribute('onclick', 'alarm = 1');
    d.body.append(script, button);
    button.click();
    is('smuggled', view.alarm, undefined);
    script.remove();
    button.remove();
};
