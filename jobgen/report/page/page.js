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

  const draw = (chart, box) => {
    plots.get(chart.id)?.destroy();
    const whole = chart.x === "step"; // a whole number
    const words = (_, ticks) =>
      ticks.map((tick) => (tick === null || (whole && !Number.isInteger(tick)) ? "" : short(tick)));
    const axis = {
      font, stroke: colour("--soft"),
      grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 },
      values: (_, ticks) => ticks.map(short),
    };
    const few = chart.data[0].length < 40;
    const series = chart.series.map((label, number) => ({
      label,
      stroke: colour(`--c${(number % 12) + 1}`),
      width: 1.5,
      spanGaps: true,
      points: { show: few, size: 5 },
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
          : { time: false, range: bounds },
        y: { range: (_, low, high) => (chart.top === null ? heights(low, high) : [0, chart.top]) },
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

  // A curve of a single point needs room beside it.
  const bounds = (_, low, high) => {
    const beside = low === high ? Math.abs(low) || 1 : 0;
    return [low - beside, high + beside];
  };

  const heights = (low, high) => {
    if (low === null || low === undefined) return [0, 1];
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
