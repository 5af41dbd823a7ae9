#include "compile/sums.h"

#include "base/strings.h"

namespace stowage::compile {

Sums::Sums(Kernel& k, std::initializer_list<std::string_view> names,
           int64_t count)
    : k_(k), width_(k.LanesFor(count)) {
  for (const std::string_view name : names) {
    names_.push_back(k.Fresh(name));
    k.Line("real ", names_.back(), " = 0;");
    if (width_ > 1) {
      k.Line("f32x", width_, " ", names_.back(), "_lanes = {0};");
    }
  }
}

void Sums::Add(size_t i, const Expr& term) {
  k_.Line(names_[i], k_.width() > 1 ? "_lanes" : "", " += ", term, ";");
}

void Sums::Finish() {
  if (width_ == 1) return;
  for (const Expr& name : names_) {
    k_.Line(name, " += sum_x", width_, "(", name, "_lanes);");
  }
}

Expr SumOfArray(const Expr& sums) {
  const auto sum = [&](int i) { return StrCat(sums, "[", i, "]"); };
  return StrCat("((", sum(0), " + ", sum(4), ") + (", sum(1), " + ", sum(5),
                ")) + ((", sum(2), " + ", sum(6), ") + (", sum(3), " + ",
                sum(7), "))");
}

Expr WriteSum(Kernel& k, int64_t count,
              const std::function<Expr(const Expr& i)>& term) {
  if (k.lanes() > 1 || count < 4 * kPartialSums) {
    Sums sums(k, {"sum"}, count);
    k.ForVectors("i", count, [&](const Expr& i) { sums.Add(0, term(i)); });
    sums.Finish();
    return sums.name(0);
  }
  const Expr sum = k.Fresh("sum");
  const Expr parts = k.Array("parts", {kPartialSums});
  const int64_t whole = count / kPartialSums, rest = count % kPartialSums;
  k.For("i", whole, [&](const Expr& i) {
    k.For("t", kPartialSums, [&](const Expr& t) {
      k.Line(parts, "[", t, "] += ", term(Plus({Times(i, kPartialSums), t})),
             ";");
    });
  });
  if (rest != 0) {
    k.For("t", rest, [&](const Expr& t) {
      k.Line(parts, "[", t,
             "] += ", term(Plus({StrCat(whole * kPartialSums), t})), ";");
    });
  }
  k.Line("const real ", sum, " = ", SumOfArray(parts), ";");
  return sum;
}

void WriteLargest(Kernel& k, int64_t count,
                  const std::function<Expr(const Expr& i)>& element) {
  const int64_t width = k.LanesFor(count);
  k.Line("real largest = ", element("0"), ";");
  if (width > 1) {
    k.Line("f32x", width, " largest_lanes = splat_x", width, "(largest);");
  }
  k.ForVectors("j", count, [&](const Expr& j) {
    const Expr to = k.width() > 1 ? "largest_lanes" : "largest";
    k.Line(to, " = maximum@(", to, ", ", element(j), ");");
  });
  if (width > 1) {
    k.Line("largest = maximum@(largest, largest_x", width, "(largest_lanes));");
  }
}

}  // namespace stowage::compile
