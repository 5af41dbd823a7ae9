#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "nn/nn.h"
#include "train/step_memory.h"
#include "train/training.h"

namespace stowage {
namespace {

// What a value needs, by a rule of its own; counts what it is asked.
struct Needs {
  std::function<Bytes(int64_t)> bytes;
  int* asked;
  int64_t model_takes = int64_t{1} << 50;
  ErrorCode code = ErrorCode::kInvalidArgument;

  Result<Bytes> operator()(int64_t value) const {
    ++*asked;
    if (value <= model_takes) return bytes(value);
    return Error{code, StrCat(value, " is too large")};
  }
};

TEST_CASE("the largest value that fits is found, and what one more needs") {
  const std::function<Bytes(int64_t)> rules[] = {
      [](int64_t v) { return 1000 + 10 * v; }, [](int64_t v) { return v * v; },
      [](int64_t v) { return v < 20 ? 500 : 500 + 3 * (v - 20) * v; },
      [](int64_t v) { return 64 * static_cast<Bytes>(std::log2(v)); },
      [](int64_t v) { return v < 77 ? 1 : 1'000'000; }};
  for (size_t rule = 0; rule < std::size(rules); ++rule) {
    for (const int64_t multiple : {1, 3}) {
      for (const Bytes budget : {600, 1000, 1777, 5000, 20000}) {
        CAPTURE(rule);
        CAPTURE(multiple);
        CAPTURE(budget);
        int asked = 0;
        const auto largest =
            FindLargest(Needs{.bytes = rules[rule], .asked = &asked}, budget,
                        {.multiple = multiple, .most = 100000});
        int64_t expected = 0;
        for (int64_t v = multiple; v <= 100000; v += multiple) {
          if (rules[rule](v) <= budget) expected = v;
        }
        REQUIRE(largest.ok() == (expected > 0));
        if (!largest.ok()) {
          CHECK(largest.error().code == ErrorCode::kBudgetTooSmall);
          continue;
        }
        CHECK(largest->value == expected);
        CHECK(largest->need == rules[rule](expected));
        CHECK(largest->plans == asked);
        const double log2 = std::log2(static_cast<double>(expected) /
                                      static_cast<double>(multiple));
        CHECK(asked <= 3 * log2 + 8);
        if (expected + multiple > 100000) {
          CHECK_FALSE(largest->above.has_value());
          continue;
        }
        REQUIRE(largest->above.has_value());
        CHECK(largest->above->value == expected + multiple);
        CHECK(*largest->above->need == rules[rule](expected + multiple));
      }
    }
  }
  // Of needs that rise linearly a handful is asked.
  int asked = 0;
  REQUIRE(FindLargest(Needs{.bytes = rules[0], .asked = &asked}, 50'000).ok());
  CHECK(asked <= 9);
}

TEST_CASE("a need that falls again just behind a refused value is found") {
  int asked = 0;
  // 33 and 40 need more than what follows them.
  const auto bytes = [](int64_t v) { return v == 33 || v == 40 ? 50 : v; };
  CHECK(FindLargest(Needs{.bytes = bytes, .asked = &asked}, 39)->value == 39);
  CHECK(FindLargest(Needs{.bytes = bytes, .asked = &asked}, 34)->value == 34);
  CHECK(FindLargest(Needs{.bytes = bytes, .asked = &asked}, 41)->value == 41);
  const auto largest = FindLargest(Needs{.bytes = bytes, .asked = &asked}, 32);
  CHECK(largest->value == 32);
  CHECK(largest->above->value == 33);
  CHECK(*largest->above->need == 50);
}

TEST_CASE("a model that takes no more bounds a value, other errors end it") {
  int asked = 0;
  Needs needs{.bytes = [](int64_t v) { return v; }, .asked = &asked};
  for (const int64_t takes : {1, 2, 5, 1024}) {
    needs.model_takes = takes;
    const auto largest = FindLargest(needs, 1'000'000);
    REQUIRE(largest.ok());
    CHECK(largest->value == takes);
    REQUIRE(largest->above.has_value());
    CHECK(largest->above->value == takes + 1);
    CHECK(largest->above->need.error().message ==
          StrCat(takes + 1, " is too large"));
  }
  needs.code = ErrorCode::kIo;
  CHECK(FindLargest(needs, 1'000'000).error().code == ErrorCode::kIo);
  needs.model_takes = 0;
  CHECK(FindLargest(needs, 1'000'000).error().message == "1 is too large");
  CHECK_FALSE(FindLargest(needs, 9, {.multiple = 0}).ok());
  CHECK_FALSE(FindLargest(needs, 9, {.multiple = 8, .most = 7}).ok());
}

// By planning every batch.
TEST_CASE("the largest batch of a model is that of trying all of them") {
  for (const char* const name : {"mlp", "cnn-small", "gpt-nano"}) {
    for (const auto& row :
         {std::pair(Recompute::kNone, 1.6), std::pair(Recompute::kAuto, 1.3)}) {
      const auto recompute = row.first;
      const double share = row.second;
      CAPTURE(name);
      CAPTURE(share);
      const auto planner_of =
          [&](int64_t batch,
              std::optional<Bytes> budget) -> Result<TrainingPlanner> {
        MemoryOptimizations optimizations = NoOptimizations();
        optimizations.recompute = recompute;
        TrainingSpec spec{.model =
                              [name](int64_t examples) {
                                ModelOptions options{.batch = examples};
                                if (name == std::string("gpt-nano"))
                                  options.seq = 8;
                                return BuildModel(name, ModelPurpose::kTrain,
                                                  options);
                              },
                          .batch = batch,
                          .training = {.optimizer = Adam{}},
                          .budget = budget,
                          .optimizations = optimizations};
        return TrainingPlanner::Make(std::move(spec), {});
      };
      auto four = planner_of(4, std::nullopt);
      REQUIRE(four.ok());
      const auto budget = static_cast<Bytes>(
          share * static_cast<double>(four->Plan().value().arena_bytes()));
      const auto largest = FindLargest(
          [&](int64_t batch) -> Result<Bytes> {
            STOWAGE_ASSIGN_OR_RETURN(TrainingPlanner planner,
                                     planner_of(batch, budget));
            return planner.step().SmallestBudget();
          },
          budget, {.most = 24});
      REQUIRE_MESSAGE(largest.ok(), largest.error().message);
      const auto fits = [&](int64_t batch) {
        return planner_of(batch, budget).value().Plan().ok();
      };
      int64_t tried = 0;
      for (int64_t batch = 1; batch <= 24; ++batch) {
        if (fits(batch)) tried = batch;
      }
      CHECK(largest->value == tried);
      CHECK(tried > 4);
    }
  }
}

}  // namespace
}  // namespace stowage
