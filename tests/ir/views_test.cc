#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"

namespace stowage {
namespace {

// Offsets of all elements in row-major order.
std::vector<int64_t> Offsets(const Shape& shape, const ViewLayout& layout) {
  std::vector<int64_t> offsets = {layout.offset};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    std::vector<int64_t> next;
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < shape[axis]; ++i) {
        next.push_back(offset + i * layout.strides[axis]);
      }
    }
    offsets = std::move(next);
  }
  return offsets;
}

// Whether any strides put elements of `shape` at `offsets`: each stride is the
// distance that one step along its axis makes from the first element.
bool SomeStridesFit(const Shape& shape, const std::vector<int64_t>& offsets) {
  ViewLayout guess = {Strides::Filled(shape.rank(), 0), offsets[0]};
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] > 1) {
      guess.strides[i] = offsets[static_cast<size_t>(step)] - offsets[0];
    }
    step *= shape[i];
  }
  return Offsets(shape, guess) == offsets;
}

std::optional<ViewLayout> View(OpKind op, const Shape& from,
                               const ViewLayout& layout, const Attrs& attrs,
                               Shape* to, int r = 0) {
  const TensorType type = {DType::kF32, from};
  const std::string_view name = "x";
  const OpArgs args = {op, {&type, 1}, {&name, 1}, attrs};
  const auto types = GetOpDef(op).infer(args);
  REQUIRE(types.ok());
  *to = (*types)[static_cast<size_t>(r)].shape;
  return GetOpDef(op).view(args, r, layout);
}

std::vector<int64_t> List(const Dims& dims) {
  return {dims.begin(), dims.end()};
}

TEST_CASE("reshape finds strides where there are any") {
  struct ReshapeRow {
    const char* what;
    Shape from;
    Strides strides;
    Shape to;
    std::optional<Strides> expected;
  };
  const std::vector<ReshapeRow> rows = {
      {"contiguous", {2, 3, 4}, {12, 4, 1}, {6, 4}, Strides{4, 1}},
      {"flat", {2, 3, 4}, {12, 4, 1}, {24}, Strides{1}},
      {"cut across", {2, 3, 4}, {12, 4, 1}, {4, 6}, Strides{6, 1}},
      {"transposed stays", {3, 2}, {1, 3}, {3, 2}, Strides{1, 3}},
      {"transposed does not merge", {3, 2}, {1, 3}, {6}, std::nullopt},
      {"split of a permuted axis",
       {4, 6},
       {1, 4},
       {4, 2, 3},
       Strides{1, 12, 4}},
      {"merge of heads that still lie together (B, T, H, D)",
       {2, 5, 3, 4},
       {60, 12, 4, 1},
       {2, 5, 12},
       Strides{60, 12, 1}},
      {"merge of heads after a permute (B, H, T, D)",
       {2, 3, 5, 4},
       {60, 4, 12, 1},
       {6, 5, 4},
       std::nullopt},
      {"rows of a column slice",
       {4, 3},
       {10, 1},
       {2, 2, 3},
       Strides{20, 10, 1}},
      {"a column slice does not merge", {4, 3}, {10, 1}, {12}, std::nullopt},
      {"every other row does not merge with columns",
       {2, 4},
       {8, 1},
       {8},
       std::nullopt},
      {"every other element", {6}, {2}, {2, 3}, Strides{6, 2}},
      {"sizes of 1 are passed over", {2, 1, 3}, {3, 77, 1}, {6}, Strides{1}},
      {"broadcast axes merge", {2, 3, 4}, {0, 0, 1}, {6, 4}, Strides{0, 1}},
      {"broadcast and real do not", {2, 3}, {0, 1}, {6}, std::nullopt},
      {"real and broadcast do not", {2, 3}, {1, 0}, {6}, std::nullopt},
      {"cut within a broadcast",
       {6, 4},
       {0, 1},
       {2, 3, 2, 2},
       Strides{0, 0, 2, 1}},
      {"a piece does not reach into the next run",
       {2, 6},
       {100, 1},
       {3, 4},
       std::nullopt},
  };
  for (const ReshapeRow& row : rows) {
    INFO(row.what);
    Shape to;
    const ViewLayout from = {row.strides, 5};
    const auto view =
        View(OpKind::kReshape, row.from, from, {{"shape", List(row.to)}}, &to);
    REQUIRE(view.has_value() == row.expected.has_value());
    if (view) CHECK(*view == ViewLayout{*row.expected, 5});
  }
}

TEST_CASE("reshape adds sizes of 1 anywhere") {
  Shape to;
  const auto view = View(OpKind::kReshape, {3, 2}, {{1, 3}, 0},
                         {{"shape", std::vector<int64_t>{1, 3, 1, 2, 1}}}, &to);
  REQUIRE(view.has_value());
  CHECK(view->strides[1] == 1);
  CHECK(view->strides[3] == 3);
  const auto scalar = View(OpKind::kReshape, {1, 1}, {{9, 9}, 4},
                           {{"shape", std::vector<int64_t>{}}}, &to);
  CHECK(scalar == ViewLayout{{}, 4});
}

TEST_CASE("a reshape of contiguous elements is contiguous, ones included") {
  for (const Shape& to : {Shape{1, 24}, Shape{24, 1}, Shape{2, 1, 12},
                          Shape{1, 4, 1, 3, 2, 1}, Shape{24}}) {
    Shape shape;
    const auto view = View(OpKind::kReshape, {2, 3, 4}, {{12, 4, 1}, 0},
                           {{"shape", List(to)}}, &shape);
    REQUIRE(view.has_value());
    CHECK(view->strides == ContiguousStrides(to));
  }
}

TEST_CASE("permute, slice, split and broadcast move strides and offsets") {
  using L = std::vector<int64_t>;
  const Shape x = {4, 6, 5};
  const ViewLayout at = {{60, 5, 1}, 7};  // every other row of 8, say
  Shape to;
  CHECK(View(OpKind::kPermute, x, at, {{"order", L{2, 0, 1}}}, &to) ==
        ViewLayout{{1, 60, 5}, 7});
  const auto slice = [](int64_t axis, int64_t start, int64_t end,
                        int64_t step) {
    return Attrs{
        {"axis", axis}, {"start", start}, {"end", end}, {"step", step}};
  };
  CHECK(View(OpKind::kSlice, x, at, slice(1, 2, 5, 1), &to) ==
        ViewLayout{{60, 5, 1}, 17});
  CHECK(View(OpKind::kSlice, x, at, slice(1, 1, 6, 2), &to) ==
        ViewLayout{{60, 10, 1}, 12});
  // One element is left of the axis: no stride that could overflow.
  CHECK(View(OpKind::kSlice, x, at, slice(0, 3, 4, INT64_MAX), &to) ==
        ViewLayout{{60, 5, 1}, 187});
  const Attrs split = {{"axis", int64_t{1}}, {"sizes", L{1, 3, 2}}};
  CHECK(View(OpKind::kSplit, x, at, split, &to, 0) ==
        ViewLayout{{60, 5, 1}, 7});
  CHECK(View(OpKind::kSplit, x, at, split, &to, 1) ==
        ViewLayout{{60, 5, 1}, 12});
  CHECK(View(OpKind::kSplit, x, at, split, &to, 2) ==
        ViewLayout{{60, 5, 1}, 27});
  CHECK(View(OpKind::kBroadcast, {4, 1, 5}, at, {{"shape", L{2, 4, 3, 5}}},
             &to) == ViewLayout{{0, 60, 0, 1}, 7});
  CHECK(View(OpKind::kBroadcast, {}, {{}, 7}, {{"shape", L{3}}}, &to) ==
        ViewLayout{{0}, 7});
}

TEST_CASE("views of views read the same elements as numbering says") {
  // Random chains of views over numbered elements; `elements` is where each of
  // the view's elements, in row-major order, must lie.
  std::mt19937 random(1);
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  int inexpressible = 0;
  for (int chain = 0; chain < 3000; ++chain) {
    Shape shape = {1 + below(4), 1 + below(4), 1 + below(4)};
    ViewLayout layout = {ContiguousStrides(shape), 0};
    for (int depth = 0; depth < 4; ++depth) {
      const std::vector<int64_t> old = Offsets(shape, layout);
      std::vector<int64_t> elements;
      OpKind op = OpKind::kReshape;
      Attrs attrs;
      const int axis =
          shape.rank() == 0 ? 0 : static_cast<int>(below(shape.rank()));
      switch (shape.rank() == 0 ? 3 : below(4)) {
        case 0: {  // a rotation of the axes
          op = OpKind::kPermute;
          std::vector<int64_t> order;
          for (int i = 0; i < shape.rank(); ++i) {
            order.push_back((i + axis) % shape.rank());
          }
          // Result index (i_k) is input index (i_k at axis order[k]).
          Strides rows = ContiguousStrides(shape);
          Shape to;
          Strides steps;
          for (const int64_t o : order) {
            to.push_back(shape[static_cast<int>(o)]);
            steps.push_back(rows[static_cast<int>(o)]);
          }
          for (const int64_t position : Offsets(to, {steps, 0})) {
            elements.push_back(old[static_cast<size_t>(position)]);
          }
          attrs = {{"order", order}};
          break;
        }
        case 1: {
          op = OpKind::kSlice;
          const int64_t start = below(shape[axis]);
          const int64_t end = start + 1 + below(shape[axis] - start);
          const int64_t step = 1 + below(3);
          const int64_t inner = ContiguousStrides(shape)[axis];
          for (size_t i = 0; i < old.size(); ++i) {
            const int64_t at = static_cast<int64_t>(i) / inner % shape[axis];
            if (at >= start && at < end && (at - start) % step == 0) {
              elements.push_back(old[i]);
            }
          }
          attrs = {{"axis", int64_t{axis}},
                   {"start", start},
                   {"end", end},
                   {"step", step}};
          break;
        }
        case 2: {  // a new leading axis
          op = OpKind::kBroadcast;
          if (shape.rank() > 4) continue;
          std::vector<int64_t> to = List(shape);
          to.insert(to.begin(), 1 + below(3));
          for (int64_t i = 0; i < to[0]; ++i) {
            elements.insert(elements.end(), old.begin(), old.end());
          }
          attrs = {{"shape", to}};
          break;
        }
        default: {  // random factors of the element count
          std::vector<int64_t> to;
          int64_t rest = shape.num_elements();
          while (rest > 1 && to.size() < 5) {
            int64_t factor = 1 + below(rest);
            while (rest % factor != 0) --factor;
            to.push_back(factor);
            rest /= factor;
          }
          to.push_back(rest);
          elements = old;
          attrs = {{"shape", to}};
        }
      }
      Shape to;
      const auto view = View(op, shape, layout, attrs, &to);
      REQUIRE(view.has_value() == SomeStridesFit(to, elements));
      if (!view) {
        ++inexpressible;
        break;
      }
      REQUIRE(Offsets(to, *view) == elements);
      shape = to;
      layout = *view;
    }
  }
  CHECK(inexpressible > 100);  // the chains do meet that case
}

}  // namespace
}  // namespace stowage
