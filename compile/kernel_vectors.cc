// The loops of kernels that are written in vectors.

#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "compile/helpers.h"
#include "compile/kernel.h"

namespace stowage::compile {
namespace {

constexpr int64_t kMinLanes = 4;  // 16 bytes

}  // namespace

int64_t Kernel::LanesFor(int64_t count) const {
  // The fewest iterations, of two the wider.
  int64_t best = 1;
  for (int64_t width = kMinLanes; width <= std::min(lanes(), count);
       width *= 2) {
    const auto iterations = [&](int64_t w) { return count / w + count % w; };
    if (iterations(width) <= iterations(best)) best = width;
  }
  return best;
}

void Kernel::ForVectors(std::string_view name, int64_t count,
                        const std::function<void(const Expr&)>& body) {
  const int64_t width = LanesFor(count), whole = count / width * width;
  const auto loop = [&](int64_t first, int64_t end, int64_t step,
                        const auto& of) {
    const auto outside = names_;
    const std::string i = Fresh(name);
    const bool is_one = end - first == 1;
    Block(is_one ? ""
                 : StrCat("for (dim_t ", i, " = ", first, "; ", i, " < ", end,
                          "; ", step == 1 ? "++" : "",
                          step == 1 ? i : StrCat(i, " += ", step), ")"),
          [&] { of(is_one ? StrCat(first) : i); });
    names_ = outside;
  };
  bool is_vector = width > 1;
  if (is_vector) {
    const std::string before = text_;
    loop(0, whole, width, [&](const Expr& i) {
      is_vector = InVectors(width, i, [&] { body(i); });
    });
    if (!is_vector) text_ = before;
  }
  if (!is_vector) return For(name, count, body);
  if (whole < count) loop(whole, count, 1, body);
}

bool Kernel::InVectors(int64_t lanes, const Expr& variable,
                       const std::function<void()>& body) {
  const std::string before = std::move(text_);
  const auto names = names_;
  text_.clear();
  width_ = lanes;
  along_ = variable;
  has_vector_form_ = true;
  body();
  width_ = 1;
  // No conditional expression has vectors as operands.
  const bool fits = has_vector_form_ &&
                    text_.find(" ? ") == std::string::npos &&
                    HasVectorFunctions(text_);
  text_ = fits ? before + text_ : before;
  if (!fits) names_ = names;
  return fits;
}

}  // namespace stowage::compile
