#include "data/example_split.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "data/batching.h"

namespace stowage {
namespace {

// Prompts and answers of so many tokens each.
TokenExamples Examples(
    const std::vector<std::pair<int32_t, int32_t>>& lengths) {
  TokenExamples examples;
  int32_t next = 0;
  const auto tokens = [&](int32_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), next);
    next += count;
    return ids;
  };
  for (const auto& [prompt, answer] : lengths) {
    examples.Append(tokens(prompt), false);
    examples.Append(tokens(answer), true);
    REQUIRE(examples.Finish());
  }
  return examples;
}

ExampleSplit Split(const std::vector<std::pair<int32_t, int32_t>>& lengths,
                   ExampleKind kind, int64_t seq, bool drops = false) {
  auto split = SplitExamples(Examples(lengths), kind, seq, drops, "data");
  REQUIRE_MESSAGE(split.ok(), split.error().message);
  return *std::move(split);
}

TEST_CASE(
    "the last tenth is held out, and what says nothing in a sequence is "
    "dropped") {
  std::vector<std::pair<int32_t, int32_t>> lengths(30, {2, 3});
  lengths[4] = {9, 2};   // the answer is beyond the sequence
  lengths[5] = {6, 20};  // part of it is
  const ExampleSplit cut = Split(lengths, ExampleKind::kLearnt, 8);
  CHECK(cut.dropped == 1);
  CHECK(cut.cut == 1);
  CHECK(cut.train.size() == 27);
  CHECK(cut.held_out == std::vector<size_t>{28, 29});
  CHECK(InputsOf(cut, {0, 5}, 8) == std::vector<int64_t>{4, 8});
  const ExampleSplit dropped = Split(lengths, ExampleKind::kLearnt, 8, true);
  CHECK(dropped.dropped == 2);
  CHECK(dropped.cut == 0);
  const auto none = SplitExamples(Examples({{9, 2}, {2, 2}}),
                                  ExampleKind::kLearnt, 8, false, "data");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message ==
        "[finetune] \"data\" has 2 examples, of which 1 fit sequences of 8 "
        "tokens; expected at least 2, one to learn from and one held out");
}

TEST_CASE(
    "a pair is as long as its longer answer, and both must say something") {
  // Three pairs; the second rejected answer is beyond the sequence.
  const ExampleSplit split = Split(
      {{2, 2}, {2, 5}, {7, 1}, {9, 1}, {1, 1}, {1, 2}}, ExampleKind::kPairs, 8);
  CHECK(split.size() == 3);
  CHECK(split.sequences() == 2);
  CHECK(split.dropped == 1);
  CHECK(split.LongestOf(0) == 7);
  CHECK(split.Of(0, 1).tokens[0].front() == 4);
  CHECK(split.train == std::vector<size_t>{0});
  CHECK(split.held_out == std::vector<size_t>{2});
}

TEST_CASE("judged answers go with the prompt behind them in their part") {
  const ExampleSplit split =
      Split({{1, 2}, {2, 3}, {3, 4}, {0, 2}, {1, 1}}, ExampleKind::kJudged, 6);
  CHECK(split.train == std::vector<size_t>{0, 1, 2, 3});
  // The first takes the last of its part; one alone, one of the other part.
  CHECK(split.partners == std::vector<size_t>{3, 0, 1, 2, 0});
  const auto tokens = [&](size_t example) {
    const Sequence sequence = split.Of(example, 1);
    std::vector<int32_t> all(sequence.tokens[0].begin(),
                             sequence.tokens[0].end());
    all.insert(all.end(), sequence.tokens[1].begin(), sequence.tokens[1].end());
    return all;
  };
  CHECK(tokens(0) == std::vector<int32_t>{0, 15, 16});
  CHECK(tokens(1) == std::vector<int32_t>{3, 4, 1, 2});
  CHECK(tokens(3) == std::vector<int32_t>{11, 12, 13, 14});
  CHECK(tokens(4) == std::vector<int32_t>{17, 1, 2});
  CHECK(split.Of(1, 1).learnt[1].front() == 1);
  CHECK(split.LongestOf(2) == 7);
  CHECK(split.cut == 0);
  CHECK(split.cut_with_partner == 0);
  CHECK(Split({{1, 6}, {5, 2}, {1, 2}, {1, 1}}, ExampleKind::kJudged, 6)
            .cut_with_partner == 1);
}

TEST_CASE("packed sequences hold every example once, and are nearly full") {
  std::vector<std::pair<int32_t, int32_t>> lengths;
  for (int32_t i = 0; i < 400; ++i) lengths.push_back({1, 1 + i * 37 % 60});
  const ExampleSplit split = Split(lengths, ExampleKind::kLearnt, 64);
  const auto packed = PackExamples(split, split.train);
  std::set<size_t> found;
  int64_t tokens = 0;
  for (const std::vector<size_t>& sequence : packed) {
    int64_t room = 64;
    for (const int64_t input : InputsOf(split, sequence, 64)) room -= input;
    CHECK(room >= 0);
    tokens += 64 - room;
    CHECK(std::ranges::is_sorted(sequence));
    found.insert(sequence.begin(), sequence.end());
  }
  CHECK(found == std::set<size_t>(split.train.begin(), split.train.end()));
  CHECK(static_cast<double>(64 * packed.size()) <=
        1.05 * static_cast<double>(tokens));
  CHECK(std::ranges::is_sorted(packed));
}

TEST_CASE("each pass takes all, in another order, by the seed") {
  std::vector<size_t> train(50);
  std::iota(train.begin(), train.end(), size_t{7});
  const auto pass = [&](TrainOrder& order, int64_t number) {
    std::vector<size_t> taken;
    for (int64_t i = 0; i < 50; ++i) taken.push_back(order.At(50 * number + i));
    return taken;
  };
  TrainOrder order(train, 1), again(train, 1), other(train, 2);
  const std::vector<size_t> first = pass(order, 0), second = pass(order, 1);
  CHECK(first != second);
  CHECK(first != pass(other, 0));
  CHECK(pass(again, 1) == second);  // whatever was asked for before
  CHECK(pass(again, 0) == first);
  for (std::vector<size_t> taken : {first, second}) {
    std::ranges::sort(taken);
    CHECK(taken == train);
  }
}

}  // namespace
}  // namespace stowage
