"use strict";
// Draws the charts that are in the element #data, and draws them again when colours or widths change.
(() => {
  const charts = JSON.parse(document.getElementById("data").textContent);
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const font = "12px system-ui, sans-serif";
  const plots = new Map();

  const short = (value) => {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (size === 0) return "0";
    for (const [unit, factor] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e4]]) {
      if (size >= factor) {
        const by = unit === "k" ? 1e3 : factor;
        return String(+(value / by).toPrecision(4)) + unit;
      }
    }
    return size < 1e-3 ? value.toExponential(2).replace(/\.?0+e/, "e") : String(+value.toPrecision(4));
  };

  // Vertical lines where a further attempt has begun.
  const marks = (places) => (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--warn");
    ctx.setLineDash([4, 4]);
    for (const place of places) {
      const x = Math.round(plot.valToPos(place, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };

  const filled = (values) => values.flatMap((value, at) => (value === null ? [] : [at]));

  const paths = (kind) => {
    if (kind === "bars") return uPlot.paths.bars({ size: [0.8, 60] });
    return kind === "steps" ? uPlot.paths.stepped({ align: 0 }) : uPlot.paths.linear();
  };

  const draw = (chart, box) => {
    plots.get(chart.id)?.destroy();
    // Ranks and steps are whole numbers.
    const whole = chart.x === "rank" || chart.x === "step";
    const words = (_, ticks) =>
      ticks.map((tick) => (tick === null || (whole && !Number.isInteger(tick)) ? "" : short(tick)));
    const axis = {
      font, stroke: colour("--soft"),
      grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 },
      values: (_, ticks) => ticks.map(short),
    };
    const lines = chart.kind === "lines";
    const few = chart.data[0].length < 40;
    // Of a thousand ranks a single one is less than a pixel wide: it is a dot.
    const dots = (number) => chart.kind === "steps" && number > 0;
    const series = chart.series.map((label, number) => ({
      label,
      stroke: colour(`--c${(number % 12) + 1}`),
      fill: lines || dots(number) ? undefined
        : colour(`--c${(number % 12) + 1}`) + (chart.kind === "bars" ? "" : "33"),
      width: lines || chart.kind === "steps" ? 1.5 : 0,
      paths: dots(number) ? () => null : paths(chart.kind),
      spanGaps: lines,
      points: dots(number)
        ? { show: true, size: 8, fill: colour("--c2"), filter: () => filled(chart.data[number + 1]) }
        : { show: lines && few, size: 5 },
      value: (_, value) => short(value),
    }));
    const options = {
      width: box.clientWidth,
      height: chart.wide ? 300 : 230,
      cursor: { y: false, points: { size: 6 } },
      legend: { show: true },
      scales: {
        x: chart.logarithmic
          ? { time: false, distr: 3, range: (_, low, high) => [low / 1.3, high * 1.3] }
          : { time: false, range: bounds(chart) },
        y: { range: (_, low, high) => (chart.top === null ? heights(low, high, !lines) : [0, chart.top]) },
      },
      series: [{ label: chart.x, value: (_, value) => short(value) }, ...series],
      axes: [
        {
          ...axis, values: words, label: chart.x, labelFont: font, labelSize: 18, size: 34,
          ...(chart.splits.length ? { splits: () => chart.splits, filter: (_, splits) => splits } : {}),
        },
        { ...axis, size: (_, texts) => 24 + Math.max(34, ...(texts || []).map((text) => 7 * (text || "").length)) },
      ],
      hooks: { draw: [marks(chart.marks)] },
    };
    box.classList.add("drawn");
    plots.set(chart.id, new uPlot(options, chart.data, box));
  };

  // Bars at the ends, and a curve of a single point, need room beside them.
  const bounds = (chart) => {
    const x = chart.data[0];
    let beside = x.length > 1 ? (x[x.length - 1] - x[0]) / (x.length - 1) / 2 : Math.abs(x[0]) || 1;
    if (chart.kind === "lines" && x.length > 1) beside = 0;
    return (_, low, high) =>
      low === x[0] && high === x[x.length - 1] ? [low - beside, high + beside] : [low, high];
  };

  const heights = (low, high, fromZero) => {
    if (low === null || low === undefined) return [0, 1];
    if (fromZero) return [Math.min(0, low), high > 0 ? high * 1.08 : 1];
    const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    return [low - room, high + room];
  };

  const drawAll = () => {
    for (const chart of charts) draw(chart, document.getElementById(`chart-${chart.id}`));
  };
  drawAll();

  let width = window.innerWidth;
  addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // On paper all is light, as wide as the paper, and open.
  matchMedia("print").addEventListener("change", drawAll);
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
})();
