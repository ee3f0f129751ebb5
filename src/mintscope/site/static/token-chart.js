// The live chart of a token, and numbers in the format of the page.
"use strict";

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const MINUS = "\u2212";
export const DASH = "\u2013";
const FIELDS = ["t", "open", "high", "low", "close", "bought", "sold", "unsided",
  "ema9", "ema21", "ema50", "ema200", "rsi", "macd", "signal", "histogram"];
const SERIES = [["ema9", "EMA 9"], ["ema21", "EMA 21"], ["ema50", "EMA 50"], ["ema200", "EMA 200"],
  ["rsi", "RSI"], ["macd", "MACD"], ["signal", "signal"], ["histogram", "histogram"],
  ["upper", "Bollinger"], ["middle", "mean of 20"], ["lower", "lower band"]];
export const AVERAGES = ["ema9", "ema21", "ema50", "ema200"];
const BANDS = ["upper", "middle", "lower"];
const OF_BANDS = 20; // candles; the bands are two standard deviations away from their mean
// Older candles are read when the left edge of the chart is before this index (0: the oldest candle):
// OVER at first, BACK once older candles were read.
const OVER = -2;
const BACK = 20;
const PANES = { price: 614, volume: 140, rsi: 130, macd: 116 }; // relative heights, as in chart.py
const UNDER_LABEL = 16; // px
const STRIP = 4; // rem, the width of the names of levels
const SPANS_MAX = 100_000; // the most spans on the axis, with or without trades
// Numbers in the format of figures.py.
const cents = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

export function shortPrice(value, most = 5) {
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  if (size === 0) return "0";
  if (size >= 100) return sign + cents.format(size);
  const [digits, power] = size.toExponential(most - 1).split("e");
  const zeros = -Number(power) - 1;
  if (zeros <= 3) return sign + size.toFixed(Math.max(0, most - 1 - Number(power)));
  const counted = [...String(zeros)].map((each) => SUBSCRIPTS[each]).join("");
  return `${sign}0.0${counted}${digits.replace(".", "")}`;
}

export function wholeNumber(value) {
  const text = String(value);
  if (!text.includes("e")) return text;
  const [digits, power] = text.split("e");
  const [whole, part = ""] = digits.replace("-", "").split(".");
  const sign = value < 0 ? "-" : "";
  const at = Number(power);
  if (at < 0) return `${sign}0.${"0".repeat(-at - 1)}${whole}${part}`;
  return sign + whole + part.padEnd(at, "0");
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function showPrice(place, value, before, behind = "") {
  const whole = `${before}${wholeNumber(value)}${behind}`;
  if (place.firstElementChild?.title === whole) return;
  const shown = `${before}${shortPrice(value)}${behind}`;
  place.replaceChildren(
    element("span", { class: "number", title: whole },
      element("span", { "aria-hidden": "true" }, shown),
      element("span", { class: "unseen" }, whole)),
  );
}

// The live chart covers the chart that the server has drawn.

const box = document.getElementById("chart");

export function pointOf(row) {
  return Object.fromEntries(FIELDS.slice(0, row.length).map((name, at) => [name, row[at]]));
}

// The candles, oldest first. After a change, `showNewest` or `setAll` updates the chart.
export const points = JSON.parse(box.dataset.points).map(pointOf);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const both = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
});

// The choices of the reader, stored in this browser: series that are off, and the scale.
const KEPT = "mintscope.chart";

function kept() {
  const usual = { off: ["bollinger"], log: false };
  try {
    return { ...usual, ...JSON.parse(localStorage.getItem(KEPT) ?? "{}") };
  } catch {
    return usual;
  }
}

function keep(choice) {
  try {
    localStorage.setItem(KEPT, JSON.stringify(choice));
  } catch {
    // This browser stores nothing: the choice lasts as long as the page.
  }
}

// Returns the top of the volume scale, as `volume_top` in chart.py: the 95th percentile if the highest
// bar is more than twice as high.
function volumeTop() {
  const sizes = points.map((each) => Math.max(each.bought, each.sold, each.unsided)).filter((each) => each > 0);
  sizes.sort((one, other) => one - other);
  const most = sizes.at(-1) ?? 1;
  const usual = sizes[Math.floor(0.95 * (sizes.length - 1))] ?? 1;
  return most > 2 * usual ? usual : most;
}

const widthS = Number(box.dataset.widthS);
const spansOf = (from, to) => Math.round((to - from) / widthS);

// Returns whether a line of the last price joins the candles, as `is_filled` in chart.py: if a span has
// no trade, or at least a third of the candles are flat.
function isFilled() {
  if (points.length < 2) return false;
  const hasGaps = spansOf(points[0].t, points.at(-1).t) >= points.length;
  const flat = points.filter((each) => each.high === each.low).length;
  return hasGaps || 3 * flat >= points.length;
}

// Computes the Bollinger bands from the candle *from* on, as the API defines them.
function setBands(from) {
  for (let at = Math.max(from, OF_BANDS - 1); at < points.length; at++) {
    const closes = points.slice(at - OF_BANDS + 1, at + 1).map((each) => each.close);
    const middle = closes.reduce((sum, each) => sum + each, 0) / OF_BANDS;
    const variance = closes.reduce((sum, each) => sum + (each - middle) ** 2, 0) / OF_BANDS;
    const away = 2 * Math.sqrt(variance);
    Object.assign(points[at], { upper: middle + away, middle, lower: middle - away });
  }
}

export class MovingChart {
  constructor(library) {
    this.library = library;
    this.choice = kept();
    // The library compares prices to 1e-14, so small prices are multiplied by a power of ten.
    const last = points.at(-1)?.close || 1;
    this.scale = last < 1e-6 ? 10 ** -Math.floor(Math.log10(last)) : 1;
    this.allLevels = JSON.parse(box.dataset.levels);
    this.#build();
    this.setAll();
    this.#offer();
    this.#watch();
    this.#show(/^#(\d{1,10})-(\d{1,10})$/.exec(location.hash));
  }

  // Draws nothing while the chart is off the screen.
  #watch() {
    this.isSeen = true;
    new IntersectionObserver((seen) => {
      this.isSeen = seen.at(-1).isIntersecting;
      this.showNewest();
    }).observe(box);
  }

  // Builds the chart again with the current colours and panes; keeps the visible range.
  rebuild() {
    const shown = this.chart.timeScale().getVisibleLogicalRange();
    this.remove();
    this.#build();
    this.#fill();
    if (shown) this.chart.timeScale().setVisibleLogicalRange(shown);
    this.#apply();
  }

  #build() {
    this.place = element("div", { class: "moving", "aria-hidden": "true" });
    box.append(this.place);
    this.chart = this.library.createChart(this.place, this.#look());
    this.levelLines = [];
    this.drawnLevels = null;
    // Read the styles once: a computed style is expensive during drawing.
    const [surface, quiet, sans] = ["--surface", "--quiet", "--sans"].map(colour);
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.style = { rem, surface, quiet, sans };
    this.panes = Object.keys(PANES).filter((name) => !this.choice.off.includes(name));
    this.#addSeries();
    for (const [at, pane] of this.chart.panes().entries()) {
      pane.setStretchFactor(PANES[this.panes[at]]);
      pane.attachPrimitive(new LevelNames(this, at === 0));
    }
    this.#placeNames();
    this.#keepTimesWhole();
    this.setLevels(this.allLevels);
    this.chart.subscribeCrosshairMove((move) => this.#tell(move));
    this.#goBack();
  }

  // The library cuts off the text of a time at an end of the axis, so such text is moved inside.
  #keepTimesWhole() {
    const canvas = this.place.querySelector("tr:last-child td:nth-child(2) canvas");
    const context = canvas.getContext("2d");
    context.fillText = (text, x, ...rest) => {
      const half = context.measureText(text).width / 2;
      const inside = Math.max(half, Math.min(x, canvas.clientWidth - half));
      CanvasRenderingContext2D.prototype.fillText.call(context, text, inside, ...rest);
    };
  }

  // Places the names of the panes, which are elements of the page.
  #placeNames() {
    const sum = this.panes.reduce((total, name) => total + PANES[name], 0);
    let above = 0;
    for (const name of Object.keys(PANES).slice(1)) {
      box.querySelector(`.pane-name.${name}`).hidden = !this.panes.includes(name);
    }
    for (const name of this.panes) {
      box.style.setProperty(`--top-${name}`, String(above / sum));
      above += PANES[name];
    }
  }

  // Reads older candles when the reader scrolls back to the oldest, and stores the visible range in
  // the address after each scroll: `#from-to`, in Unix seconds.
  #goBack() {
    const scale = this.chart.timeScale();
    scale.subscribeVisibleLogicalRangeChange((range) => {
      if (range && range.from < (this.isBack ? BACK : OVER)) this.#addOlder();
    });
    for (const name of ["pointerup", "wheel", "keyup"]) {
      this.place.addEventListener(name, () => requestAnimationFrame(() => this.#name()), { passive: true });
    }
  }

  #name() {
    const shown = this.chart.timeScale().getVisibleRange();
    if (shown) history.replaceState(null, "", `#${shown.from}-${shown.to}`);
  }

  async #show(asked) {
    if (asked === null) return;
    const [from, to] = asked.slice(1).map(Number);
    while (from < points[0]?.t && await this.#addOlder());
    if (from < to && points.length > 0) this.chart.timeScale().setVisibleRange({ from, to });
  }

  // Reads older candles; returns whether there were any.
  async #addOlder() {
    if (!box.dataset.older || this.isReading) return false;
    this.isReading = true;
    const first = points[0].t;
    try {
      const response = await fetch(`${box.dataset.older}&before=${points[0].t}`);
      if (response.status !== 200) return false;
      const told = await response.json();
      const since = points.at(-1).t - SPANS_MAX * widthS;
      const older = told.points.map(pointOf).filter((each) => each.t >= since);
      const isFull = older.length < told.points.length;
      if (!told.has_older || told.points.length === 0 || isFull) delete box.dataset.older;
      document.getElementById("chart-end").hidden = !isFull;
      const shown = this.chart.timeScale().getVisibleLogicalRange();
      this.isBack = true;
      points.unshift(...older);
      this.#fill();
      const by = spansOf(points[0].t, first);
      if (shown) this.chart.timeScale().setVisibleLogicalRange({ from: shown.from + by, to: shown.to + by });
      return by > 0;
    } catch {
      return false; // the next scroll tries again
    } finally {
      this.isReading = false;
    }
  }

  #offer() {
    for (const button of document.querySelectorAll("[data-series]")) {
      button.onclick = () => this.#turn(button.dataset.series);
    }
    const tools = document.getElementById("chart-tools");
    tools.querySelector("[data-log]").onclick = () => {
      this.choice.log = !this.choice.log;
      keep(this.choice);
      this.#apply();
    };
    tools.querySelector("[data-fill]").onclick = () => this.#turn("fill");
    tools.querySelector("[data-full]").onclick = () => {
      if (document.fullscreenElement) document.exitFullscreen();
      else box.closest("section").requestFullscreen();
    };
    this.#apply();
  }

  #turn(name) {
    const off = new Set(this.choice.off);
    if (!off.delete(name)) off.add(name);
    this.choice.off = [...off];
    keep(this.choice);
    if (name in PANES) this.rebuild();
    else this.#apply();
  }

  #apply() {
    const { off, log } = this.choice;
    for (const name of AVERAGES) this.lines[name].applyOptions({ visible: !off.includes(name) });
    for (const name of BANDS) this.lines[name].applyOptions({ visible: !off.includes("bollinger") });
    this.filled.applyOptions({ visible: isFilled() && !off.includes("fill") });
    this.setLevels(this.allLevels);
    for (const button of document.querySelectorAll("[data-series]")) {
      button.setAttribute("aria-pressed", String(!off.includes(button.dataset.series)));
    }
    this.candles.priceScale().applyOptions({ mode: log ? 1 : 0 });
    const tools = document.getElementById("chart-tools");
    tools.querySelector("[data-log]").setAttribute("aria-pressed", String(log));
    tools.querySelector("[data-fill]").setAttribute("aria-pressed", String(!off.includes("fill")));
  }

  #look() {
    return {
      autoSize: true,
      layout: {
        attributionLogo: false, // it needs inline styles; a link below names the maker
        background: { color: colour("--surface") },
        textColor: colour("--quiet"),
        fontFamily: colour("--sans"),
        fontSize: 12,
        panes: { separatorColor: colour("--line"), separatorHoverColor: colour("--edge") },
      },
      grid: { vertLines: { visible: false }, horzLines: { color: colour("--line") } },
      rightPriceScale: { entireTextOnly: true, borderColor: colour("--line"), minimumWidth: parseFloat(colour("--axis")) * parseFloat(getComputedStyle(box).fontSize) },
      timeScale: {
        borderColor: colour("--line"),
        timeVisible: true,
        secondsVisible: widthS < 60,
        minBarSpacing: 0.02, // so that years of a rarely traded token fit
        rightOffsetPixels: STRIP * parseFloat(getComputedStyle(document.documentElement).fontSize), // room for the names of levels
        tickMarkFormatter: (at, kind) => (kind < 3 ? day : clock).format(at * 1000),
      },
      localization: { timeFormatter: (at) => both.format(at * 1000) },
      handleScroll: { vertTouchDrag: false },
      handleScale: { mouseWheel: false }, // the wheel scrolls the page; pinching and the axes scale
    };
  }

  #addSeries() {
    const { CandlestickSeries, HistogramSeries, LineSeries } = this.library;
    const last = points.at(-1)?.close || 1;
    const step = Math.max(0, 5 - Math.floor(Math.log10(last * this.scale)));
    const priceFormat = {
      type: "custom", minMove: 10 ** -step, base: Math.round(10 ** step),
      formatter: (value) => shortPrice(value / this.scale),
      tickmarksFormatter: (values) => values.map((value) => this.#tick(value)),
    };
    const short = {
      ...priceFormat,
      formatter: (value) => shortPrice(value / this.scale, 3),
      tickmarksFormatter: (values) => values.map((value) => shortPrice(value / this.scale, 3)),
    };
    const volumeFormat = { type: "custom", minMove: 0.01, formatter: (v) => shortAmount(Math.abs(v)) };
    const quiet = { priceLineVisible: false, lastValueVisible: false, crosshairMarkerVisible: false };
    const rise = colour("--rise");
    const fall = colour("--fall");
    const add = (kind, options, pane) => this.chart.addSeries(kind, options, pane);
    const line = (name, pane, format, width = 1) =>
      add(LineSeries, { ...quiet, color: colour(name), lineWidth: width, priceFormat: format }, pane);
    // Of the multiples of ten, only 30 and 70 have a label, so that no labels overlap.
    const isBetween = (value) => value % 10 === 0 && value !== 30 && value !== 70;
    const plain = { type: "custom", minMove: 1, formatter: (v) => (isBetween(v) ? "" : v.toFixed(0)) };
    this.colours = { rise, fall, unsided: colour("--edge") };
    this.filled = line("--edge", 0, priceFormat);
    this.filled.applyOptions({ lineType: 1 }); // stepped: a price lasts until the next one
    this.labelled = null;
    this.candles = add(CandlestickSeries, {
      upColor: rise, downColor: fall, wickUpColor: rise, wickDownColor: fall,
      borderVisible: false, priceFormat,
    }, 0);
    this.lines = Object.fromEntries(AVERAGES.map((name) => [name, line(`--${name}`, 0, priceFormat)]));
    for (const name of BANDS) this.lines[name] = line("--bands", 0, priceFormat);
    this.lines.middle.applyOptions({ lineStyle: 2 });
    this.#addVolume(volumeFormat, quiet);
    this.#addMomentum(line, plain, short, quiet);
  }

  // Colours the label of the last price like its candle, with enough contrast for the number; grey if
  // the token is dormant.
  #colourLabel() {
    const last = points.at(-1);
    const moved = (last?.close ?? 0) < (last?.open ?? 0) ? "--fall-label" : "--rise-label";
    const name = document.getElementById("dormant") ? "--quiet" : moved;
    if (name === this.labelled) return;
    this.labelled = name;
    this.candles.applyOptions({ priceLineColor: colour(name) });
  }

  // Returns a number of the scale, or "" if the label of the last price covers it.
  #tick(value) {
    const last = points.at(-1);
    const [at, over] = [value, (last?.close ?? 0) * this.scale].map((each) => this.candles.priceToCoordinate(each));
    return Math.abs(at - over) < UNDER_LABEL ? "" : shortPrice(value / this.scale);
  }

  #addVolume(priceFormat, quiet) {
    const pane = this.panes.indexOf("volume");
    this.bars = [];
    if (pane < 0) return;
    const autoscaleInfoProvider = () => ({ priceRange: { minValue: -this.top, maxValue: this.top } });
    this.bars = ["--rise", "--fall"].map((name) => this.chart.addSeries(
      this.library.HistogramSeries,
      { ...quiet, color: `${colour(name)}a6`, priceFormat, autoscaleInfoProvider }, pane,
    ));
  }

  #addMomentum(line, plain, short, quiet) {
    const [strength, momentum] = ["rsi", "macd"].map((name) => this.panes.indexOf(name));
    if (strength >= 0) {
      this.lines.rsi = line("--ema50", strength, plain, 2);
      this.lines.rsi.applyOptions({
        autoscaleInfoProvider: (own) => {
          const range = own()?.priceRange ?? { minValue: 50, maxValue: 50 };
          const [least, most] = [Math.min(25, range.minValue), Math.max(75, range.maxValue)];
          return { priceRange: { minValue: least, maxValue: most } };
        },
      });
      for (const price of [30, 70]) {
        this.lines.rsi.createPriceLine({
          price, color: colour("--edge"), lineWidth: 1, lineStyle: 2,
          axisLabelColor: colour("--sunken"), axisLabelTextColor: colour("--quiet"),
        });
      }
    }
    this.histogram = null;
    if (momentum >= 0) {
      this.histogram = this.chart.addSeries(
        this.library.HistogramSeries, { ...quiet, priceFormat: short }, momentum,
      );
      this.lines.macd = line("--ema21", momentum, short);
      this.lines.signal = line("--ema9", momentum, short);
    }
  }

  #rows(point) {
    const time = point.t;
    const scaled = (value) => value * this.scale;
    const { rise, fall, unsided } = this.colours;
    const soft = { rise: `${rise}a6`, fall: `${fall}a6`, unsided: `${unsided}a6` };
    const bar = (value, colour_, soft_) => {
      const isCut = value > this.top;
      return { time, value: isCut ? this.top : value, color: isCut ? colour_ : soft_ };
    };
    const up = point.unsided ? bar(point.unsided, unsided, soft.unsided) : bar(point.bought, rise, soft.rise);
    const down = bar(point.sold, fall, soft.fall);
    const rows = [
      [this.filled, { time, value: scaled(point.close) }],
      [this.candles, {
        time, open: scaled(point.open), high: scaled(point.high), low: scaled(point.low), close: scaled(point.close),
      }],
    ];
    const both = [up, { ...down, value: -down.value }];
    this.bars.forEach((series, at) => rows.push([series, both[at]]));
    const known = (value) => value !== null && value !== undefined;
    for (const [name, series] of Object.entries(this.lines)) {
      const value = name === "rsi" ? point[name] : scaled(point[name]);
      rows.push([series, known(point[name]) ? { time, value } : { time }]);
    }
    const value = point.histogram;
    if (this.histogram) rows.push([this.histogram, known(value) ? { time, value: scaled(value), color: value < 0 ? soft.fall : soft.rise } : { time }]);
    return rows;
  }

  setAll() {
    this.#fill();
    this.chart.timeScale().fitContent();
  }

  #fill() {
    this.top = volumeTop();
    setBands(0);
    const all = new Map();
    let due = points[0]?.t;
    for (const point of points) {
      for (const [series, row] of this.#rows(point)) {
        if (!all.has(series)) all.set(series, []);
        if (series === this.filled) for (; due < point.t; due += widthS) all.get(series).push({ time: due });
        all.get(series).push(row);
      }
      due = point.t + widthS;
    }
    for (const [series, rows] of all) series.setData(rows);
    this.newest = points.at(-1)?.t;
    this.#colourLabel();
    this.filled.applyOptions({ visible: isFilled() && !this.choice.off.includes("fill") });
  }

  // Updates the chart once for all changes that arrive together.
  showNewest() {
    if (this.isDue) return;
    this.isDue = true;
    queueMicrotask(() => {
      this.isDue = false;
      if (!this.isSeen) return;
      const since = this.newest ?? 0;
      if (points.at(-1)?.t < since) this.#fill(); // a fork has removed the newest candle
      for (const point of points.filter((each) => each.t >= since)) this.setNewest(point);
    });
  }

  setNewest(point) {
    if (spansOf(this.newest, point.t) > 1) {
      this.#fill(); // there are spans without trades before it
      return;
    }
    setBands(points.length - 2);
    for (const [series, row] of this.#rows(point)) series.update(row);
    this.newest = point.t;
    this.#colourLabel();
  }

  setLevels(levels) {
    const wanted = JSON.stringify([levels, this.choice.off.includes("levels")]);
    if (wanted === this.drawnLevels) return;
    this.drawnLevels = wanted;
    for (const each of this.levelLines) this.candles.removePriceLine(each);
    this.allLevels = levels;
    const isOff = this.choice.off.includes("levels");
    this.levels = isOff ? [] : levels.filter(([, , price]) => price !== null);
    this.levelLines = this.levels.map(([, , price]) => this.candles.createPriceLine({
      price: price * this.scale, color: colour("--edge"), lineWidth: 1, lineStyle: 2, axisLabelVisible: false,
    }));
  }

  remove() {
    this.chart.remove();
    this.place.remove();
  }

  #tell(move) {
    const place = document.getElementById("hovered");
    const at = move.time === undefined ? undefined : points.findLast((point) => point.t <= move.time);
    if (at === undefined) {
      place.replaceChildren();
      return;
    }
    if (at.t < move.time) {
      const since = both.format(at.t * 1000);
      place.textContent = `${both.format(move.time * 1000)}: no trades, ${shortPrice(at.close)} since ${since}`;
      return;
    }
    const parts = ["open", "high", "low", "close"].map((name) => `${name} ${shortPrice(at[name])}`);
    if (at.unsided) parts.push(`volume $${shortAmount(at.unsided)}`);
    else parts.push(`bought $${shortAmount(at.bought)}`, `sold $${shortAmount(at.sold)}`);
    const { off } = this.choice;
    const group = (name) => (BANDS.includes(name) ? "bollinger" : ["signal", "histogram"].includes(name) ? "macd" : name);
    for (const [name, called] of SERIES) {
      if (off.includes(group(name))) continue;
      if (at[name] !== null && at[name] !== undefined) {
        parts.push(`${called} ${name === "rsi" ? at[name].toFixed(1) : shortPrice(at[name])}`);
      }
    }
    place.textContent = `${both.format(at.t * 1000)}: ${parts.join("  ")}`;
  }
}

// Draws the names of the levels in a strip next to the axis, which covers the candles; other panes
// get an empty strip.

class LevelNames {
  constructor(moving, isNamed) {
    const draw = (target) => target.useMediaCoordinateSpace((scope) => this.#draw(moving, isNamed, scope));
    this.views = [{ zOrder: () => "top", renderer: () => ({ draw }) }];
  }

  paneViews() {
    return this.views;
  }

  #draw(moving, isNamed, { context, mediaSize }) {
    if (moving.levels.length === 0) return;
    const { rem, surface, quiet, sans } = moving.style;
    context.fillStyle = surface;
    context.fillRect(mediaSize.width - STRIP * rem, 0, STRIP * rem, mediaSize.height);
    if (!isNamed) return;
    context.font = `${0.6875 * rem}px ${sans}`;
    context.fillStyle = quiet;
    context.strokeStyle = surface;
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.textAlign = "right";
    context.textBaseline = "middle";
    const places = moving.levels.map(([, name, price]) => [moving.candles.priceToCoordinate(price * moving.scale), name]);
    let above = -Infinity;
    for (const [y, name] of places.filter(([y]) => y !== null).sort(([one], [other]) => one - other)) {
      if (y < above + rem) continue; // it would overlap the name above
      above = y;
      const place = [mediaSize.width - 0.3 * rem, y - 0.5 * rem];
      context.strokeText(name, ...place);
      context.fillText(name, ...place);
    }
  }
}

function shortAmount(value) {
  for (const [factor, unit] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= factor * 0.9995) return `${(value / factor).toPrecision(3)}${unit}`; // as in figures.py
  }
  return value.toPrecision(3);
}
