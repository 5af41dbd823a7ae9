#include "report/packing_svg.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "report/svg.h"
#include "report/text.h"

namespace stowage {
namespace {

using packing::Buffer;
using packing::Packing;
using packing::Problem;
using packing::Time;

// The page, in SVG units.
constexpr double kPackingWidth = 1200;
constexpr double kPackingLeft = 90;
constexpr double kPackingRight = 20;
constexpr double kPackingTop = 64;
constexpr double kPackingMapHeight = 560;
constexpr double kPackingGap = 24;  // between the map and the curve
constexpr double kPackingCurveHeight = 110;
constexpr double kPackingBottom = 30;
constexpr double kPackingPlotWidth =
    kPackingWidth - kPackingLeft - kPackingRight;
constexpr double kPackingPlotRight = kPackingLeft + kPackingPlotWidth;
constexpr double kPackingCurveTop =
    kPackingTop + kPackingMapHeight + kPackingGap;
constexpr double kPackingHeight =
    kPackingCurveTop + kPackingCurveHeight + kPackingBottom;

// Neighbours differ in colour, mostly.
constexpr std::array<std::string_view, 7> kColours = {
    "#4e79a7", "#f28e2b", "#59a14f", "#b07aa1",
    "#76b7b2", "#edc948", "#e15759"};
constexpr std::string_view kFixedColour = "#9c9c9c";

class PackingDrawing {
 public:
  PackingDrawing(const Problem& problem, const Packing& packing)
      : problem_(problem), packing_(packing) {
    STOWAGE_CHECK(packing.solution.offsets.size() == problem.buffers.size());
    Bytes top = packing.solution.height;
    if (problem.capacity) top = std::max(top, *problem.capacity);
    top_ = std::max(1.0, static_cast<double>(top));
    if (problem.buffers.empty()) return;
    first_ = problem.buffers[0].lower;
    last_ = problem.buffers[0].upper;
    for (const Buffer& b : problem.buffers) {
      first_ = std::min(first_, b.lower);
      last_ = std::max(last_, b.upper);
    }
  }

  std::string Draw() {
    Heading();
    Axes();
    for (size_t i = 0; i < problem_.buffers.size(); ++i) DrawBuffer(i);
    if (problem_.capacity) {
      Level("capacity", Y(static_cast<double>(*problem_.capacity)), "#d62728");
    }
    Curve();
    return canvas_.Finish();
  }

 private:
  double X(Time time) const {
    const double span =
        std::max(1.0, static_cast<double>(last_) - static_cast<double>(first_));
    return kPackingLeft + kPackingPlotWidth * ((static_cast<double>(time) -
                                                static_cast<double>(first_)) /
                                               span);
  }
  double Y(double address) const {
    return kPackingTop + kPackingMapHeight * (1 - address / top_);
  }
  double CurveY(double bytes) const {
    return kPackingCurveTop + kPackingCurveHeight * (1 - bytes / top_);
  }

  void Level(std::string_view kind, double y, std::string_view colour) {
    canvas_.Line(kind, {kPackingLeft, y}, {kPackingPlotRight, y}, colour);
  }

  void Heading() {
    canvas_.Text(
        {kPackingLeft, 24}, kHeading,
        StrCat(WithCommas(static_cast<int64_t>(problem_.buffers.size())),
               " buffers"));
    canvas_.Text(
        {kPackingLeft, 44}, kQuiet,
        StrCat("height ", packing_.solution.height, " bytes, lower bound ",
               packing_.lower_bound, packing_.optimal ? ": optimal" : "", "; ",
               packing_.packer));
  }

  void Axes() {
    constexpr int kLines = 5;
    for (int i = 0; i <= kLines; ++i) {
      const double address = top_ * i / kLines;
      Level("grid", Y(address), "#ddd");
      canvas_.Text({kPackingLeft - 6, Y(address) + 4}, kEndsHere,
                   FormatBytes(static_cast<Bytes>(address)));
    }
    canvas_.Text({kPackingLeft, kPackingHeight - 8}, kQuiet,
                 StrCat("time ", first_));
    canvas_.Text({kPackingPlotRight, kPackingHeight - 8}, kEndsHere,
                 StrCat("time ", last_));
  }

  void DrawBuffer(size_t i) {
    const Buffer& b = problem_.buffers[i];
    if (b.size == 0) return;
    const Bytes offset = packing_.solution.offsets[i];
    const double bottom = static_cast<double>(offset);
    const double top = bottom + static_cast<double>(b.size);
    canvas_.Rectangle(
        "buffer",
        {.x = X(b.lower),
         .y = Y(top),
         .width = X(b.upper) - X(b.lower),
         .height = Y(bottom) - Y(top)},
        b.offset ? kFixedColour : kColours[i % kColours.size()],
        StrCat(BufferName(problem_, i), "\n", FormatBytes(b.size), " (", b.size,
               " bytes) at ", offset, b.offset ? ", fixed" : "", "\nlives ",
               Interval(b.lower, b.upper)));
  }

  // Live bytes over time, a step at each birth and death.
  void Curve() {
    std::map<Time, Bytes> changes;
    for (const Buffer& b : problem_.buffers) {
      changes[b.lower] += b.size;
      changes[b.upper] -= b.size;
    }
    std::vector<Point> points = {{kPackingLeft, CurveY(0)}};
    Bytes live = 0;
    for (const auto& [time, change] : changes) {
      points.push_back({X(time), CurveY(static_cast<double>(live))});
      live += change;
      points.push_back({X(time), CurveY(static_cast<double>(live))});
    }
    points.push_back({kPackingPlotRight, CurveY(0)});
    canvas_.Polygon("live", points, kLiveBytes, "live bytes");
    const double y = CurveY(static_cast<double>(packing_.solution.height));
    Level("height", y, "#222");
    canvas_.Text({kPackingLeft - 6, y + 4}, kEndsHere, "height");
    canvas_.Text({kPackingLeft - 6, CurveY(0) + 4}, kEndsHere, "live bytes");
  }

  const Problem& problem_;
  const Packing& packing_;
  Time first_ = 0;
  Time last_ = 1;
  double top_ = 1;
  Canvas canvas_{kPackingWidth, kPackingHeight};
};

}  // namespace

std::string ToSvg(const packing::Problem& problem,
                  const packing::Packing& packing) {
  return PackingDrawing(problem, packing).Draw();
}

}  // namespace stowage
