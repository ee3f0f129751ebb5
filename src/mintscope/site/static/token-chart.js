// The chart of a token as it moves, and numbers as the page writes them.
"use strict";

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const MINUS = "\u2212";
export const DASH = "\u2013";
const FIELDS = ["t", "open", "high", "low", "close", "bought", "sold", "unsided",
  "ema9", "ema21", "ema50", "ema200", "rsi", "macd", "signal", "histogram"];
const SERIES = [["ema9", "EMA 9"], ["ema21", "EMA 21"], ["ema50", "EMA 50"], ["ema200", "EMA 200"],
  ["rsi", "RSI"], ["macd", "MACD"], ["signal", "signal"], ["histogram", "histogram"]];
export const AVERAGES = ["ema9", "ema21", "ema50", "ema200"];
// Older candles are read once the first of all is so far from the left edge, in candles; and before
// it is there, once some were read.
const OVER = -2;
const BACK = 20;
const PANES = [614, 140, 130, 116]; // heights, as the drawn chart has them
// Numbers, as web/figures/numbers.py writes them.

export function shortPrice(value, most = 5) {
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  if (size === 0) return "0";
  if (size >= 100) {
    return sign + size.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  }
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
  const shown = `${before}${shortPrice(value)}${behind}`;
  place.replaceChildren(
    element("span", { class: "number", title: whole },
      element("span", { "aria-hidden": "true" }, shown),
      element("span", { class: "unseen" }, whole)),
  );
}

// The chart that moves takes the place of the drawn one, which is behind it.

const box = document.getElementById("chart");

export function pointOf(row) {
  return Object.fromEntries(FIELDS.slice(0, row.length).map((name, at) => [name, row[at]]));
}

// Oldest first. Changes go to the chart: `setNewest`, or `setAll`.
export const points = JSON.parse(box.dataset.points).map(pointOf);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const both = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
});

// The choices of the reader, which this browser keeps: series that are off, and the scale.
const KEPT = "mintscope.chart";

function kept() {
  try {
    return { off: [], log: false, ...JSON.parse(localStorage.getItem(KEPT) ?? "{}") };
  } catch {
    return { off: [], log: false };
  }
}

function keep(choice) {
  try {
    localStorage.setItem(KEPT, JSON.stringify(choice));
  } catch {
    // This browser keeps nothing: the choice lasts as long as the page.
  }
}

// The largest volume of the scale, as web/figures/chart.py has it: the 95th percentile if a bar is
// more than twice as tall.
function volumeTop() {
  const sizes = points.map((each) => Math.max(each.bought, each.sold, each.unsided)).filter((each) => each > 0);
  sizes.sort((one, other) => one - other);
  const most = sizes.at(-1) ?? 1;
  const usual = sizes[Math.floor(0.95 * (sizes.length - 1))] ?? 1;
  return most > 2 * usual ? usual : most;
}

// As the drawn chart: closes are joined if a third of the candles and more have one price.
function joinsCloses() {
  const flat = points.filter((each) => each.high === each.low).length;
  return points.length > 1 && 3 * flat >= points.length;
}

export class MovingChart {
  constructor(library) {
    this.library = library;
    this.choice = kept();
    // The library compares prices to 1e-14: smaller ones are drawn as multiples of a power of ten.
    const last = points.at(-1)?.close || 1;
    this.scale = last < 1e-6 ? 10 ** -Math.floor(Math.log10(last)) : 1;
    this.place = element("div", { class: "moving", "aria-hidden": "true" });
    box.append(this.place);
    this.chart = library.createChart(this.place, this.#look());
    this.levels = JSON.parse(box.dataset.levels);
    this.levelLines = [];
    this.#addSeries();
    this.candles.attachPrimitive(new LevelNames(this));
    this.chart.panes().forEach((pane, at) => pane.setStretchFactor(PANES[at]));
    this.chart.subscribeCrosshairMove((move) => this.#tell(move));
    this.setAll();
    this.setLevels(this.levels);
    this.#offer();
    this.#goBack();
  }

  // Older candles are read as the reader scrolls to where they begin, and the address holds what
  // is shown of the chart once it is not all: `#from-to`, in Unix seconds.
  #goBack() {
    const scale = this.chart.timeScale();
    scale.subscribeVisibleLogicalRangeChange((range) => {
      if (range && range.from < (this.isBack ? BACK : OVER)) this.#addOlder();
    });
    for (const name of ["pointerup", "wheel", "keyup"]) {
      this.place.addEventListener(name, () => requestAnimationFrame(() => this.#name()), { passive: true });
    }
    this.#show(/^#(\d{1,10})-(\d{1,10})$/.exec(location.hash));
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

  // Returns whether any were there.
  async #addOlder() {
    if (!box.dataset.older || this.isReading) return false;
    this.isReading = true;
    try {
      const response = await fetch(`${box.dataset.older}&before=${points[0].t}`);
      if (response.status !== 200) return false;
      const told = await response.json();
      if (!told.has_older || told.points.length === 0) delete box.dataset.older;
      const shown = this.chart.timeScale().getVisibleLogicalRange();
      this.isBack = true;
      points.unshift(...told.points.map(pointOf));
      this.#fill();
      const by = told.points.length;
      if (shown) this.chart.timeScale().setVisibleLogicalRange({ from: shown.from + by, to: shown.to + by });
      return by > 0;
    } catch {
      return false; // the reader scrolls again
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
    this.#apply();
  }

  #apply() {
    const { off, log } = this.choice;
    for (const name of AVERAGES) this.lines[name].applyOptions({ visible: !off.includes(name) });
    this.setLevels(this.allLevels);
    for (const button of document.querySelectorAll("[data-series]")) {
      button.setAttribute("aria-pressed", String(!off.includes(button.dataset.series)));
    }
    this.candles.priceScale().applyOptions({ mode: log ? 1 : 0 });
    document.querySelector("#chart-tools [data-log]").setAttribute("aria-pressed", String(log));
  }

  #look() {
    return {
      autoSize: true,
      layout: {
        attributionLogo: false, // it would need a style of its own; a link below names the maker
        background: { color: colour("--surface") },
        textColor: colour("--quiet"),
        fontFamily: colour("--sans"),
        fontSize: 12,
        panes: { separatorColor: colour("--line"), separatorHoverColor: colour("--edge") },
      },
      grid: { vertLines: { visible: false }, horzLines: { color: colour("--line") } },
      rightPriceScale: { borderColor: colour("--line"), minimumWidth: parseFloat(colour("--axis")) * parseFloat(getComputedStyle(box).fontSize) },
      timeScale: {
        borderColor: colour("--line"),
        timeVisible: true,
        rightOffsetPixels: 4 * parseFloat(getComputedStyle(document.documentElement).fontSize), // for the names of levels
        tickMarkFormatter: (at, kind) => (kind < 3 ? day : clock).format(at * 1000),
      },
      localization: { timeFormatter: (at) => both.format(at * 1000) },
      handleScroll: { vertTouchDrag: false },
      handleScale: { mouseWheel: false }, // the page scrolls; two fingers and the axes scale
    };
  }

  #addSeries() {
    const { CandlestickSeries, HistogramSeries, LineSeries } = this.library;
    const last = points.at(-1)?.close || 1;
    const step = Math.max(0, 5 - Math.floor(Math.log10(last * this.scale)));
    const priceFormat = {
      type: "custom", minMove: 10 ** -step, base: Math.round(10 ** step),
      formatter: (value) => shortPrice(value / this.scale),
    };
    const short = { ...priceFormat, formatter: (value) => shortPrice(value / this.scale, 3) };
    const volumeFormat = { type: "custom", minMove: 0.01, formatter: (v) => shortAmount(Math.abs(v)) };
    const quiet = { priceLineVisible: false, lastValueVisible: false, crosshairMarkerVisible: false };
    const rise = colour("--rise");
    const fall = colour("--fall");
    const add = (kind, options, pane) => this.chart.addSeries(kind, options, pane);
    const line = (name, pane, format, width = 1) =>
      add(LineSeries, { ...quiet, color: colour(name), lineWidth: width, priceFormat: format }, pane);
    // Of the scale nothing but the lines: the numbers between would run into theirs.
    const isBetween = (value) => value % 10 === 0 && value !== 30 && value !== 70;
    const plain = { type: "custom", minMove: 1, formatter: (v) => (isBetween(v) ? "" : v.toFixed(0)) };
    this.colours = { rise, fall, unsided: colour("--edge") };
    this.closes = line("--edge", 0, priceFormat);
    this.candles = add(CandlestickSeries, {
      upColor: rise, downColor: fall, wickUpColor: rise, wickDownColor: fall,
      borderVisible: false, priceFormat,
    }, 0);
    this.lines = Object.fromEntries(AVERAGES.map((name) => [name, line(`--${name}`, 0, priceFormat)]));
    this.bought = add(HistogramSeries, { ...quiet, color: `${rise}a6`, priceFormat: volumeFormat }, 1);
    this.sold = add(HistogramSeries, { ...quiet, color: `${fall}a6`, priceFormat: volumeFormat }, 1);
    const within = () => ({ priceRange: { minValue: -this.top, maxValue: this.top } });
    for (const each of [this.bought, this.sold]) each.applyOptions({ autoscaleInfoProvider: within });
    this.lines.rsi = line("--ema50", 2, plain, 2);
    this.lines.rsi.applyOptions({
      autoscaleInfoProvider: (own) => {
        const range = own()?.priceRange ?? { minValue: 50, maxValue: 50 };
        const [least, most] = [Math.min(25, range.minValue), Math.max(75, range.maxValue)];
        return { priceRange: { minValue: least, maxValue: most } };
      },
    });
    for (const price of [30, 70]) {
      this.lines.rsi.createPriceLine({ price, color: colour("--edge"), lineWidth: 1, lineStyle: 2 });
    }
    this.histogram = add(HistogramSeries, { ...quiet, priceFormat: short }, 3);
    this.lines.macd = line("--ema21", 3, short);
    this.lines.signal = line("--ema9", 3, short);
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
      [this.closes, { time, value: scaled(point.close) }],
      [this.candles, {
        time, open: scaled(point.open), high: scaled(point.high), low: scaled(point.low), close: scaled(point.close),
      }],
      [this.bought, up],
      [this.sold, { ...down, value: -down.value }],
    ];
    const known = (value) => value !== null && value !== undefined;
    for (const [name, series] of Object.entries(this.lines)) {
      const value = name === "rsi" ? point[name] : scaled(point[name]);
      rows.push([series, known(point[name]) ? { time, value } : { time }]);
    }
    const value = point.histogram;
    rows.push([this.histogram, known(value) ? { time, value: scaled(value), color: value < 0 ? soft.fall : soft.rise } : { time }]);
    return rows;
  }

  setAll() {
    this.#fill();
    this.chart.timeScale().fitContent();
  }

  #fill() {
    this.top = volumeTop();
    this.closes.applyOptions({ visible: joinsCloses() });
    const all = new Map();
    for (const point of points) {
      for (const [series, row] of this.#rows(point)) {
        if (!all.has(series)) all.set(series, []);
        all.get(series).push(row);
      }
    }
    for (const [series, rows] of all) series.setData(rows);
  }

  setNewest(point) {
    for (const [series, row] of this.#rows(point)) series.update(row);
  }

  setLevels(levels) {
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
    const at = move.time === undefined ? undefined : points.find((point) => point.t === move.time);
    if (at === undefined) {
      place.replaceChildren();
      return;
    }
    const parts = ["open", "high", "low", "close"].map((name) => `${name} ${shortPrice(at[name])}`);
    if (at.unsided) parts.push(`volume $${shortAmount(at.unsided)}`);
    else parts.push(`bought $${shortAmount(at.bought)}`, `sold $${shortAmount(at.sold)}`);
    for (const [name, called] of SERIES) {
      if (at[name] !== null && at[name] !== undefined) {
        parts.push(`${called} ${name === "rsi" ? at[name].toFixed(1) : shortPrice(at[name])}`);
      }
    }
    place.textContent = `${both.format(at.t * 1000)}: ${parts.join("  ")}`;
  }
}

// The names of the levels, at the right end of each line, as the drawn chart has them.

class LevelNames {
  constructor(moving) {
    const draw = (target) => target.useMediaCoordinateSpace((scope) => this.#draw(moving, scope));
    this.views = [{ zOrder: () => "top", renderer: () => ({ draw }) }];
  }

  paneViews() {
    return this.views;
  }

  #draw(moving, { context, mediaSize }) {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    context.font = `${0.6875 * rem}px ${colour("--sans")}`;
    context.fillStyle = colour("--quiet");
    context.strokeStyle = colour("--surface");
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [, name, price] of moving.levels) {
      const y = moving.candles.priceToCoordinate(price * moving.scale);
      if (y === null) continue;
      const place = [mediaSize.width - 0.3 * rem, y - 0.5 * rem];
      context.strokeText(name, ...place);
      context.fillText(name, ...place);
    }
  }
}

function shortAmount(value) {
  for (const [factor, unit] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= factor) return `${(value / factor).toPrecision(3)}${unit}`;
  }
  return value.toPrecision(3);
}
