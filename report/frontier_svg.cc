#include "report/frontier_svg.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/strings.h"
#include "report/svg.h"

namespace stowage {
namespace {

// The page, in SVG units.
constexpr double kFrontierWidth = 900;
constexpr double kFrontierHeight = 520;
constexpr double kFrontierLeft = 80;
constexpr double kFrontierRight = kFrontierWidth - 40;
constexpr double kFrontierTop = 70;
constexpr double kFrontierBottom = kFrontierHeight - 50;

class FrontierDrawing {
 public:
  FrontierDrawing(const FrontierLabels& labels,
                  std::span<const FrontierMark> marks)
      : labels_(labels), marks_(marks) {
    for (const FrontierMark& mark : marks) {
      most_bytes_ = std::max(most_bytes_, static_cast<double>(mark.budget));
      most_ = std::max(most_, mark.percent);
    }
  }

  std::string Draw() {
    Heading();
    Axes();
    Bound();
    Steps();
    for (const FrontierMark& mark : marks_) {
      const Point at = {X(mark.budget), Y(mark.percent)};
      canvas_.Rectangle("mark", {at.x - 3, at.y - 3, 6, 6}, "#4e79a7",
                        mark.note);
    }
    return canvas_.Finish();
  }

 private:
  double X(double bytes) const {
    return kFrontierLeft +
           (kFrontierRight - kFrontierLeft) * bytes / most_bytes_;
  }
  double X(Bytes bytes) const { return X(static_cast<double>(bytes)); }
  // Even steps are equal ratios of 1 + percent.
  double Y(double percent) const {
    return kFrontierBottom - (kFrontierBottom - kFrontierTop) *
                                 std::log1p(percent) / std::log1p(most_);
  }

  void Heading() {
    canvas_.Text({kFrontierLeft, 24}, kHeading, labels_.title);
    canvas_.Text({kFrontierLeft, 44}, kQuiet,
                 StrCat("budget to the right, ", labels_.cost,
                        " upwards; dashed: no plan can need less"));
  }

  void Axes() {
    for (const double percent : {0, 1, 3, 10, 30, 100, 300, 1000}) {
      if (percent > most_) break;
      canvas_.Line("grid", {kFrontierLeft, Y(percent)},
                   {kFrontierRight, Y(percent)}, "#ddd");
      canvas_.Text({kFrontierLeft - 6, Y(percent) + 4}, kEndsHere,
                   StrCat(percent, " %"));
    }
    constexpr int kLines = 4;
    for (int i = 0; i <= kLines; ++i) {
      const double bytes = most_bytes_ * i / kLines;
      canvas_.Line("grid", {X(bytes), kFrontierTop},
                   {X(bytes), kFrontierBottom}, "#ddd");
      canvas_.Text({X(bytes), kFrontierBottom + 18},
                   "text-anchor=\"middle\" fill=\"#444\"",
                   FormatBytes(static_cast<Bytes>(bytes)));
    }
  }

  // From the largest budget down: each holds to the next smaller one.
  void Steps() {
    std::vector<Point> points;
    for (const FrontierMark& mark : marks_) {
      if (!points.empty()) points.push_back({points.back().x, Y(mark.percent)});
      points.push_back({X(mark.budget), Y(mark.percent)});
    }
    canvas_.Polyline("found", points, "#4e79a7", "stroke-width=\"2\"");
  }

  void Bound() {
    std::vector<Point> points;
    for (const FrontierMark& mark : marks_) {
      if (!mark.least_percent) continue;
      points.push_back({X(mark.budget), Y(*mark.least_percent)});
    }
    if (points.empty()) return;
    canvas_.Polyline("bound", points, "#d62728", "stroke-dasharray=\"4 3\"");
  }

  const FrontierLabels& labels_;
  const std::span<const FrontierMark> marks_;
  double most_bytes_ = 1;
  double most_ = 1;
  Canvas canvas_{kFrontierWidth, kFrontierHeight};
};

}  // namespace

std::string FrontierToSvg(const FrontierLabels& labels,
                          std::span<const FrontierMark> marks) {
  return FrontierDrawing(labels, marks).Draw();
}

}  // namespace stowage
