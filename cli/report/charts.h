// Figures of a report as SVG: each a file of its own, and part of the page.
// Plain rectangles and text; no library draws them, as none of Debian's is
// smaller than what is needed here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// A row of stacked parts, each a share of `scale`'s unit (ns, bytes).
struct BarRow {
  std::string label, value;   ///< As text; `value` stands behind the bar.
  std::vector<double> parts;  ///< By part, from the left.
};

/// The index of `legend` is the part's.
struct BarChart {
  std::string title;
  std::vector<std::string> legend;
  std::vector<BarRow> rows;
  double mark = 0;  ///< A line across all rows there (a bound); 0: none.
  std::string mark_label;
};
std::string bar_chart_svg(const BarChart& chart);

/// A strip a row, cut into boxes: buckets over gradients in ready order.
struct Strip {
  std::string label;
  std::vector<double> sizes;               ///< Of what is put together.
  std::vector<std::vector<size_t>> boxes;  ///< Places in `sizes`, in order.
};
std::string strips_svg(const std::string& title,
                       const std::vector<Strip>& strips);

/// Points of two quantities, in nanoseconds.
struct PlotPoint {
  double x = 0, y = 0;
};

/// What was best so far against how much was tried: steps down to the last
/// point, and a bound below which nothing lies.
struct SearchPlot {
  std::string title, across;      ///< `across`: what x counts.
  std::vector<PlotPoint> points;  ///< By rising x; y is a time in ns.
  double last_x = 0;              ///< Where the search ended.
  double chosen = 0, bound = 0;   ///< Times in ns; 0: none.
};
std::string search_plot_svg(const SearchPlot& plot);

/// Measured (x) beside predicted (y) times in ns, on logarithmic axes; on the
/// line they are equal. By group, each with a colour and a name.
struct FidelityPlot {
  std::string title;
  std::vector<std::string> groups;
  std::vector<std::vector<PlotPoint>> points;  ///< [group]
};
std::string fidelity_plot_svg(const FidelityPlot& plot);

struct TimelineBox {
  size_t row = 0, color = 0;
  int64_t start_ns = 0, duration_ns = 0;
};
std::string timeline_svg(const std::vector<std::string>& rows,
                         const std::vector<TimelineBox>& boxes,
                         int64_t span_ns);

}  // namespace reprise
