#include "report/svg.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "planner/lifetimes.h"
#include "report/canvas.h"
#include "report/format.h"

namespace stowage {
namespace {

// The page, in SVG units.
constexpr double kWidth = 1200;
constexpr double kLeft = 90;
constexpr double kRight = 20;
constexpr double kTop = 86;
constexpr double kMapHeight = 520;
constexpr double kGap = 34;  // between the map and the curve
constexpr double kCurveHeight = 110;
constexpr double kBottom = 30;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotRight = kLeft + kPlotWidth;
constexpr double kCurveTop = kTop + kMapHeight + kGap;
constexpr double kHeight = kCurveTop + kCurveHeight + kBottom;

std::string_view ColourOf(Region region) {
  switch (region) {
    case Region::kWeights:
      return "#4e79a7";
    case Region::kState:
      return "#b07aa1";
    case Region::kIo:
      return "#59a14f";
    case Region::kActivations:
      return "#f28e2b";
    case Region::kWorkspace:
    case Region::kHostState:  // not in the picture
    case Region::kHostStash:
    case Region::kOutside:
      break;
  }
  return "#9c9c9c";
}

class Drawing {
 public:
  explicit Drawing(const Report& report)
      : report_(report),
        end_(std::max<double>(1, static_cast<double>(report.nodes.size()))),
        top_(std::max<double>(1, static_cast<double>(report.arena))) {}

  std::string Draw() {
    Heading();
    Legend();
    Axes();
    for (const ReportBuffer& buffer : report_.buffers) {
      if (!IsOnHost(buffer.region)) DrawBuffer(buffer);
    }
    PeakLine();
    Curve();
    return canvas_.Finish();
  }

 private:
  double X(double time) const { return kLeft + kPlotWidth * (time / end_); }
  double Y(double address) const {
    return kTop + kMapHeight * (1 - address / top_);
  }
  double CurveY(double bytes) const {
    return kCurveTop + kCurveHeight * (1 - bytes / top_);
  }

  void Heading() {
    canvas_.Text({kLeft, 24}, kHeading, report_.graph_name);
    canvas_.Text(
        {kLeft, 44}, kQuiet,
        StrCat("arena ", FormatBytes(report_.arena), ", lower bound ",
               FormatBytes(report_.lower_bound), "; without reuse ",
               FormatBytes(report_.no_reuse), ", so saved ",
               FormatBytes(report_.saved()), " (",
               Fixed(report_.saved_percent(), 1), " %); caching allocator ",
               FormatBytes(report_.caching_allocator)));
  }

  void Legend() {
    double x = kLeft;
    for (const Region region : kRegions) {
      const std::string label =
          StrCat(RegionName(region), " ",
                 FormatBytes(BytesOf(report_.regions, region)));
      canvas_.Rectangle("key", {x, 58, 12, 12}, ColourOf(region));
      canvas_.Text({x + 17, 68}, "fill=\"#222\"", label);
      x += 34 + 7.0 * static_cast<double>(label.size());
    }
  }

  void Axes() {
    constexpr int kLines = 5;
    for (int i = 0; i <= kLines; ++i) {
      const double address = top_ * i / kLines;
      canvas_.Line("grid", {kLeft, Y(address)}, {kPlotRight, Y(address)},
                   "#ddd");
      canvas_.Text({kLeft - 6, Y(address) + 4}, kEndsHere,
                   FormatBytes(static_cast<Bytes>(address)));
    }
    canvas_.Text({kLeft, kHeight - 8}, kQuiet, "time 0");
    canvas_.Text({kPlotRight, kHeight - 8}, kEndsHere,
                 StrCat(report_.nodes.size(), " nodes"));
  }

  void DrawBuffer(const ReportBuffer& buffer) {
    const double bottom = static_cast<double>(buffer.address);
    const double top = bottom + static_cast<double>(buffer.size);
    const double x = X(static_cast<double>(buffer.lower));
    // What lives on after the last node ends with the picture.
    const double upper = std::min(static_cast<double>(buffer.upper), end_);
    canvas_.Rectangle("buffer",
                      {.x = x,
                       .y = Y(top),
                       .width = std::max(0.0, X(upper) - x),
                       .height = std::max(0.0, Y(bottom) - Y(top))},
                      ColourOf(buffer.region),
                      StrCat(buffer.name, "\n", RegionName(buffer.region), ", ",
                             FormatBytes(buffer.size), " (", buffer.size,
                             " bytes) at ", buffer.address, "\nlives ",
                             Interval(buffer.lower, buffer.upper)));
  }

  void PeakLine() {
    if (report_.nodes.empty()) return;
    const double x = X(static_cast<double>(report_.peak_time) + 0.5);
    canvas_.Line("peak", {x, kTop}, {x, kCurveTop + kCurveHeight}, "#d62728",
                 "stroke-dasharray=\"4 3\"");
    const bool right_half = x > kLeft + kPlotWidth / 2;
    canvas_.Text(
        {right_half ? x - 5 : x + 5, kCurveTop - 10},
        right_half ? "text-anchor=\"end\" fill=\"#d62728\""
                   : "fill=\"#d62728\"",
        StrCat("peak: time ", report_.peak_time, ", ", report_.peak_node));
  }

  // Live bytes over time, a step at each node, under the arena's height.
  void Curve() {
    std::vector<Point> points = {{kLeft, CurveY(0)}};
    for (size_t time = 0; time < report_.live.size(); ++time) {
      const double y = CurveY(static_cast<double>(report_.live[time].total()));
      const double at = static_cast<double>(time);
      points.push_back({X(at), y});
      points.push_back({X(at + 1), y});
    }
    points.push_back({kPlotRight, CurveY(0)});
    canvas_.Polygon("live", points, kLiveBytes, "live bytes");
    canvas_.Line("arena", {kLeft, kCurveTop}, {kPlotRight, kCurveTop}, "#222");
    canvas_.Text({kLeft - 6, kCurveTop + 4}, kEndsHere, "arena");
    canvas_.Text({kLeft - 6, CurveY(0) + 4}, kEndsHere, "live bytes");
  }

  const Report& report_;
  const double end_;
  const double top_;
  Canvas canvas_{kWidth, kHeight};
};

}  // namespace

std::string ToSvg(const Report& report) { return Drawing(report).Draw(); }

}  // namespace stowage
