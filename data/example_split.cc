#include "data/example_split.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/result.h"
#include "base/strings.h"

namespace stowage {

namespace {

// The index of the first learned token.
size_t AnswerOf(const TokenExamples& examples, size_t i) {
  const auto learnt = examples.learnt(i);
  return static_cast<size_t>(std::ranges::find(learnt, 1) - learnt.begin());
}

// Whether the first seq + 1 tokens of each sequence include a learned one.
bool SaysWithin(const ExampleSplit& split, size_t example) {
  const int texts = split.kind == ExampleKind::kPairs ? 2 : 1;
  for (int which = 0; which < texts; ++which) {
    const auto learnt = split.Of(example, which).learnt[0];
    const auto end =
        learnt.begin() + std::min(std::ssize(learnt), split.seq + 1);
    if (std::find(learnt.begin() + 1, end, 1) == end) return false;
  }
  return true;
}

void SetPartners(const std::vector<size_t>& part,
                 const std::vector<size_t>& other, ExampleSplit* split) {
  for (size_t i = 0; i < part.size(); ++i) {
    const size_t partner = part.size() == 1
                               ? other.front()
                               : part[(i + part.size() - 1) % part.size()];
    split->partners[part[i]] = partner;
    if (split->Of(part[i], 1).size() > split->seq + 1) {
      ++split->cut_with_partner;
    }
  }
}

}  // namespace

Sequence ExampleSplit::Of(size_t example, int which) const {
  if (kind == ExampleKind::kPairs) {
    example = 2 * example + static_cast<size_t>(which);
  } else if (which == 1) {
    const size_t other = partners[example];
    const size_t prompt = AnswerOf(examples, example);
    const size_t answer = AnswerOf(examples, other);
    return {.tokens = {examples.tokens(example).first(prompt),
                       examples.tokens(other).subspan(answer)},
            .learnt = {examples.learnt(example).first(prompt),
                       examples.learnt(other).subspan(answer)}};
  }
  return {.tokens = {examples.tokens(example), {}},
          .learnt = {examples.learnt(example), {}}};
}

int64_t ExampleSplit::LongestOf(size_t example) const {
  int64_t longest = 0;
  for (int which = 0; which < sequences(); ++which) {
    longest = std::max(longest, Of(example, which).size());
  }
  return longest;
}

Result<ExampleSplit> SplitExamples(TokenExamples examples, ExampleKind kind,
                                   int64_t seq, bool drops,
                                   std::string_view origin) {
  ExampleSplit split{.seq = seq, .kind = kind, .examples = std::move(examples)};
  std::vector<size_t> usable;
  for (size_t i = 0; i < split.size(); ++i) {
    int64_t longest = split.Of(i, 0).size();
    if (kind == ExampleKind::kPairs) longest = split.LongestOf(i);
    // A sequence reads all tokens but the last.
    if (longest > seq + 1) {
      if (drops || !SaysWithin(split, i)) {
        ++split.dropped;
        continue;
      }
      ++split.cut;
    }
    usable.push_back(i);
  }
  if (usable.size() < 2) {
    return InvalidArgumentError(
        "[finetune] ", Quoted(origin), " has ", split.size(),
        kind == ExampleKind::kPairs ? " pairs" : " examples", ", of which ",
        usable.size(), " fit sequences of ", seq,
        " tokens; expected at least 2, one to learn from and one held "
        "out");
  }
  const auto held_out =
      static_cast<std::ptrdiff_t>(std::max(size_t{1}, usable.size() / 10));
  split.train.assign(usable.begin(), usable.end() - held_out);
  split.held_out.assign(usable.end() - held_out, usable.end());
  if (kind == ExampleKind::kJudged) {
    split.partners.resize(split.size());
    SetPartners(split.train, split.held_out, &split);
    SetPartners(split.held_out, split.train, &split);
  }
  return split;
}

std::vector<int64_t> InputsOf(const ExampleSplit& split,
                              const std::vector<size_t>& part, int64_t seq) {
  std::vector<int64_t> inputs;
  for (const size_t example : part) {
    inputs.push_back(std::min(split.LongestOf(example) - 1, seq));
  }
  return inputs;
}

std::vector<std::vector<size_t>> PackExamples(const ExampleSplit& split,
                                              const std::vector<size_t>& part) {
  const std::vector<int64_t> inputs = InputsOf(split, part, split.seq);
  std::vector<size_t> longest_first(part.size());
  std::iota(longest_first.begin(), longest_first.end(), size_t{0});
  std::ranges::stable_sort(longest_first, std::greater(),
                           [&](size_t i) { return inputs[i]; });
  std::vector<std::vector<size_t>> packed;   // indices in the set
  std::multimap<int64_t, size_t> with_room;  // by remaining tokens
  for (const size_t i : longest_first) {
    const auto best = with_room.lower_bound(inputs[i]);
    size_t at = packed.size();
    int64_t room = split.seq;
    if (best == with_room.end()) {
      packed.emplace_back();
    } else {
      std::tie(room, at) = *best;
      with_room.erase(best);
    }
    packed[at].push_back(i);
    with_room.emplace(room - inputs[i], at);
  }
  for (std::vector<size_t>& sequence : packed) std::ranges::sort(sequence);
  std::ranges::sort(packed);
  for (std::vector<size_t>& sequence : packed) {
    for (size_t& i : sequence) i = part[i];
  }
  return packed;
}

}  // namespace stowage
