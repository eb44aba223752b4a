#include "cli/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "cli/report/page.h"
#include "data/number_text.h"

namespace reprise {
namespace {

// Okabe and Ito's colours, as in page.js; the second is hatched, so that what
// is exposed shows without colours too.
constexpr std::array<std::string_view, 5> kColors = {
    "#0072b2", "#d55e00", "#cc79a7", "#009e73", "#999999"};
constexpr double kWidth = 900, kLabel = 170, kValue = 130, kRow = 22;

std::string_view color_of(size_t part) {
  return kColors[part % kColors.size()];
}

std::string open_svg(const std::string& title, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {:.0f}\" "
      "width=\"{}\" role=\"img\" font-family=\"system-ui,sans-serif\" "
      "font-size=\"12\" fill=\"currentColor\"><title>{}</title>\n"
      "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
      "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
      "<rect width=\"6\" height=\"6\" fill=\"{}\"/><rect width=\"2\" "
      "height=\"6\" fill=\"#ffffff\" "
      "fill-opacity=\"0.45\"/></pattern></defs>\n",
      kWidth, height, kWidth, html_text(title), kColors[1]);
}

std::string text_at(double x, double y, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y,
                     html_text(text));
}

std::string box(double x, double y, double width, double height,
                std::string_view fill) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
      "fill=\"{}\"/>\n",
      x, y, std::max(width, 0.0), height, fill);
}

std::string cut_text(std::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  return std::string(text.substr(0, width - 1)) + "~";
}

std::string legend_svg(const std::vector<std::string>& legend) {
  std::string svg;
  double x = kLabel;
  for (size_t part = 0; part < legend.size(); ++part) {
    if (legend[part].empty()) continue;  // Takes no part.
    svg += box(x, 4, 11, 11, part == 1 ? "url(#hatch)" : color_of(part));
    svg += text_at(x + 16, 14, legend[part]);
    x += 30 + 7 * static_cast<double>(legend[part].size());
  }
  return svg;
}

constexpr double kPlotTop = 28, kPlotHeight = 300;

/// Where quantities lie in a plot: x to the right, y upwards.
struct PlotFrame {
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;

  double x(double value) const {
    return kLabel +
           (value - x_low) / (x_high - x_low) * (kWidth - kLabel - kValue);
  }
  double y(double value) const {
    return kPlotHeight + 16 -
           (value - y_low) / (y_high - y_low) * (kPlotHeight + 16 - kPlotTop);
  }
  std::string axes() const {
    return fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" "
        "stroke=\"currentColor\"/>\n",
        kLabel, kPlotTop, kPlotHeight + 16, kWidth - kValue);
  }
};

}  // namespace

std::string bar_chart_svg(const BarChart& chart) {
  double most = chart.mark;
  for (const BarRow& row : chart.rows) {
    double sum = 0;
    for (const double part : row.parts) sum += std::max(part, 0.0);
    most = std::max(most, sum);
  }
  if (!(most > 0)) most = 1;
  const double scale = (kWidth - kLabel - kValue) / most;
  const double top = chart.legend.empty() ? 4 : 24;
  const double height =
      top + kRow * static_cast<double>(chart.rows.size()) + 18;
  std::string svg = open_svg(chart.title, height) + legend_svg(chart.legend);
  double y = top;
  for (const BarRow& row : chart.rows) {
    svg += text_at(4, y + 15, cut_text(row.label, 26));
    double x = kLabel;
    for (size_t part = 0; part < row.parts.size(); ++part) {
      const double width = std::max(row.parts[part], 0.0) * scale;
      svg += box(x, y + 3, width, kRow - 6,
                 part == 1 ? "url(#hatch)" : color_of(part));
      x += width;
    }
    svg += text_at(x + 6, y + 15, row.value);
    y += kRow;
  }
  if (chart.mark > 0) {
    const double x = kLabel + chart.mark * scale;
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"currentColor\" "
        "stroke-dasharray=\"4 3\"/>\n",
        x, top, y);
    svg += text_at(x + 4, y + 13, chart.mark_label);
  }
  return svg + "</svg>\n";
}

std::string strips_svg(const std::string& title,
                       const std::vector<Strip>& strips) {
  const double each = 44;
  std::string svg =
      open_svg(title, 8 + each * static_cast<double>(strips.size()));
  double y = 8;
  for (const Strip& strip : strips) {
    double sum = 0;
    for (const double size : strip.sizes) sum += size;
    const double scale = (kWidth - kLabel - 10) / std::max(sum, 1e-9);
    svg += text_at(4, y + 18, strip.label);
    double x = kLabel;
    for (size_t place = 0; place < strip.boxes.size(); ++place) {
      const double begin = x;
      for (const size_t member : strip.boxes[place]) {
        const double width = strip.sizes[member] * scale;
        svg += box(x + 0.4, y, width - 0.8, 26, color_of(place));
        x += width;
      }
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"30\" "
          "fill=\"none\" stroke=\"currentColor\"/>\n",
          begin, y - 2, std::max(x - begin, 0.0));
    }
    y += each;
  }
  return svg + "</svg>\n";
}

std::string search_plot_svg(const SearchPlot& plot) {
  double low = plot.bound > 0 ? plot.bound : plot.chosen, high = plot.chosen;
  double last = std::max(plot.last_x, 1.0);
  for (const PlotPoint& point : plot.points) {
    low = std::min(low, point.y);
    high = std::max(high, point.y);
    last = std::max(last, point.x);
  }
  const double room = std::max((high - low) * 0.08, high * 0.01);
  const PlotFrame frame = {0, last, low - room, high + room};
  std::string svg = open_svg(plot.title, kPlotHeight + 40) + frame.axes();
  std::string path;
  for (const PlotPoint& point : plot.points) {
    const double x = frame.x(point.x), y = frame.y(point.y);
    path += path.empty() ? fmt::format("M{:.1f} {:.1f}", x, y)
                         : fmt::format("H{:.1f}V{:.1f}", x, y);
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", x, y,
        color_of(0));
  }
  if (!path.empty()) {
    svg += fmt::format(
        "<path d=\"{}H{:.1f}\" fill=\"none\" stroke=\"{}\" "
        "stroke-width=\"1.5\"/>\n",
        path, frame.x(last), color_of(0));
  }
  const auto level = [&](double time_ns, const char* label, const char* dash) {
    if (!(time_ns > 0)) return;
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"currentColor\" "
        "stroke-dasharray=\"{}\"/>\n",
        kLabel, frame.y(time_ns), kWidth - kValue, dash);
    svg += text_at(4, frame.y(time_ns) + 4,
                   fmt::format("{} {}", label, duration_text(time_ns)));
  };
  level(plot.chosen, "plan", "1 3");
  level(plot.bound, "lower bound", "6 4");
  svg += text_at(kLabel, kPlotHeight + 32, "0");
  svg += text_at(kWidth - kValue - 60, kPlotHeight + 32,
                 fmt::format("{:.0f} {}", last, plot.across));
  return svg + "</svg>\n";
}

std::string fidelity_plot_svg(const FidelityPlot& plot) {
  double low = std::numeric_limits<double>::infinity(), high = 1;
  for (const auto& group : plot.points) {
    for (const PlotPoint& point : group) {
      low = std::min({low, point.x, point.y});
      high = std::max({high, point.x, point.y});
    }
  }
  low = std::clamp(low, 1.0, high);
  // A decade a step; equal ends would leave no scale.
  const double from = std::log10(low) - 0.02, to = std::log10(high) + 0.02;
  const PlotFrame frame = {from, to, from, to};
  std::string svg =
      open_svg(plot.title, kPlotHeight + 40) + legend_svg(plot.groups);
  svg += frame.axes();
  svg += fmt::format(
      "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"currentColor\" "
      "stroke-dasharray=\"4 3\"/>\n",
      frame.x(from), frame.y(from), frame.x(to), frame.y(to));
  for (size_t group = 0; group < plot.points.size(); ++group) {
    for (const PlotPoint& point : plot.points[group]) {
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" "
          "fill-opacity=\"0.7\"/>\n",
          frame.x(std::log10(std::max(point.x, 1.0))),
          frame.y(std::log10(std::max(point.y, 1.0))), color_of(group));
    }
  }
  svg += text_at(4, kPlotTop + 10, "predicted " + duration_text(high));
  svg += text_at(4, kPlotHeight + 14, "predicted " + duration_text(low));
  svg += text_at(kLabel, kPlotHeight + 32, "measured " + duration_text(low));
  svg += text_at(kWidth - kValue - 60, kPlotHeight + 32,
                 "measured " + duration_text(high));
  return svg + "</svg>\n";
}

std::string timeline_svg(const std::vector<std::string>& rows,
                         const std::vector<TimelineBox>& boxes,
                         int64_t span_ns) {
  const double row_height = 14;
  const double scale =
      (kWidth - kLabel) / static_cast<double>(std::max<int64_t>(span_ns, 1));
  std::string svg =
      open_svg("Timeline", 8 + row_height * static_cast<double>(rows.size()));
  for (size_t row = 0; row < rows.size(); ++row) {
    svg += text_at(4, 15 + row_height * static_cast<double>(row),
                   cut_text(rows[row], 26));
  }
  for (const TimelineBox& one : boxes) {
    svg += box(kLabel + static_cast<double>(one.start_ns) * scale,
               6 + row_height * static_cast<double>(one.row),
               std::max(static_cast<double>(one.duration_ns) * scale, 0.15),
               row_height - 3, color_of(one.color));
  }
  return svg + "</svg>\n";
}

}  // namespace reprise
