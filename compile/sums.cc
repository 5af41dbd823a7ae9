#include "compile/sums.h"

#include "base/strings.h"

namespace stowage::compile {
namespace {

// From where on rounding in a sum of floats shows.
constexpr int64_t kManyTerms = 512;

}  // namespace

Sums::Sums(Kernel& k, const std::vector<std::string>& names, int64_t count)
    : k_(k), width_(k.LanesFor(count)) {
  for (const std::string& name : names) {
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

LongSum::LongSum(Kernel& k, std::string_view name, int64_t count)
    : k_(k), name_(name), keeps_rest_(count > kManyTerms) {
  k.Line("real ", name, " = 0",
         keeps_rest_ ? StrCat(", ", name, "_rest = 0") : "", ";");
}

void LongSum::Add(const Expr& term) {
  if (keeps_rest_) {
    k_.Line("accumulate@(&", name_, ", &", name_, "_rest, ", term, ");");
  } else {
    k_.Line(name_, " += ", term, ";");
  }
}

Expr SumOfArray(const Expr& sums) {
  const auto sum = [&](int i) { return StrCat(sums, "[", i, "]"); };
  return StrCat("((", sum(0), " + ", sum(4), ") + (", sum(1), " + ", sum(5),
                ")) + ((", sum(2), " + ", sum(6), ") + (", sum(3), " + ",
                sum(7), "))");
}

namespace {

// Declares a sum of term(first + i) over i in [0, count) and returns its name.
Expr WriteShortSum(Kernel& k, const Expr& first, int64_t count,
                   const std::function<Expr(const Expr& i)>& term) {
  const auto at = [&](const Expr& i) { return term(Plus({first, i})); };
  if (k.lanes() > 1 || count < 4 * kPartialSums) {
    Sums sums(k, {"sum"}, count);
    k.ForVectors("i", count, [&](const Expr& i) { sums.Add(0, at(i)); });
    sums.Finish();
    return sums.name(0);
  }
  const Expr sum = k.Fresh("sum");
  const Expr parts = k.Array("parts", {kPartialSums});
  const int64_t whole = count / kPartialSums, rest = count % kPartialSums;
  k.For("i", whole, [&](const Expr& i) {
    k.For("t", kPartialSums, [&](const Expr& t) {
      k.Line(parts, "[", t, "] += ", at(Plus({Times(i, kPartialSums), t})),
             ";");
    });
  });
  if (rest != 0) {
    k.For("t", rest, [&](const Expr& t) {
      k.Line(parts, "[", t,
             "] += ", at(Plus({StrCat(whole * kPartialSums), t})), ";");
    });
  }
  k.Line("const real ", sum, " = ", SumOfArray(parts), ";");
  return sum;
}

}  // namespace

Expr WriteSum(Kernel& k, int64_t count,
              const std::function<Expr(const Expr& i)>& term) {
  constexpr int64_t kBlock = 256;
  const int64_t whole = count / kBlock, rest = count % kBlock;
  if (whole <= 4) return WriteShortSum(k, "0", count, term);
  const Expr sum = k.Fresh("sum");
  LongSum total(k, sum, count);
  k.For("block", whole, [&](const Expr& block) {
    total.Add(WriteShortSum(k, Times(block, kBlock), kBlock, term));
  });
  if (rest > 0) {
    k.Block("", [&] {
      total.Add(WriteShortSum(k, StrCat(whole * kBlock), rest, term));
    });
  }
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
