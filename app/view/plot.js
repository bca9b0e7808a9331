/* SPDX-License-Identifier: MIT */
/*
 * plot.js - what the scripts of all pages are made of: elements, numbers, and the plot that widgets.js draws samples
 * with and load/report/page_plots.js a report. Texts may come from anybody: they become text nodes, never markup.
 * Nothing is fetched.
 */
'use strict';

const build = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children.flat(Infinity).filter(child => child !== null));
    return element;
};
/* Children that are strings become text. */
const html = (name, attributes, ...children) => build(document.createElement(name), attributes, children);
/* Taken from a parser: no address stands in a page that fetches nothing. */
const space = new DOMParser().parseFromString('<svg></svg>', 'text/html').querySelector('svg').namespaceURI;
const svg = (name, attributes, ...children) => build(document.createElementNS(space, name), attributes, children);
const path = (kind, d) => svg('path', { class: kind, d });

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
const grouped = text => text.replace(/^\d{5,}/, digits => digits.replace(/\B(?=(\d{3})+$)/g, '\u00a0'));

const thousands = number => String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, '\u00a0');
const countText = number => number < 1e6 ? thousands(number) : `${(number / 1e6).toFixed(number < 1e7 ? 2 : 1)} M`;

/* The least of 1, 2, 5, 10, ... that is enough. */
const stepFor = least => {
    const decade = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map(step => step * decade).find(step => step >= least * 0.999999);
};
const wideFrom = 600;

class Plot {
    /*
     * A kind of plot sets, before it draws:
     *     left, right, top, bottom    where values are drawn in the svg
     *     shown                       { from, to } of the horizontal axis
     *     axis                        { from, to, isLog } of the vertical one
     * and hears of a reader by hover(at) and key(event); at null: nobody points.
     */
    constructor(label) {
        this.label = label;
        this.svg = svg('svg', { role: 'img', 'aria-label': label });
        this.box = html('div', {
            class: 'plot', tabindex: '0', role: 'group', 'aria-label': `${label}; arrow keys show values` }, this.svg);
        this.box.addEventListener('pointermove', event => this.hover(this.under(event)));
        this.box.addEventListener('pointerleave', event => { if (event.pointerType !== 'touch') this.hover(null); });
        this.box.addEventListener('blur', () => this.hover(null));
        this.box.addEventListener('keydown', event => {
            if (!event.ctrlKey && !event.altKey && !event.metaKey && this.key(event)) event.preventDefault();
        });
    }

    x(at) { return this.left + (at - this.shown.from) / (this.shown.to - this.shown.from) * (this.right - this.left); }
    y(value) {
        const { from, to, isLog } = this.axis;
        const part = isLog ? Math.log(clamp(value, from, to) / from) / Math.log(to / from) : (value - from) / (to - from);
        return this.bottom - part * (this.bottom - this.top);
    }
    /* In the svg, and on the horizontal axis. */
    pixels(event) {
        const { left, width } = this.svg.getBoundingClientRect();
        return (event.clientX - left) * this.width / width;
    }
    under(event) {
        const part = (this.pixels(event) - this.left) / (this.right - this.left);
        return this.shown.from + clamp(part, 0, 1) * (this.shown.to - this.shown.from);
    }
    hair(at) { return path('hair', `M${this.x(at)} ${this.top}V${this.bottom}`); }
}
