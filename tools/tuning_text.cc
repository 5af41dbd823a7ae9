#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "data/batching.h"
#include "tools/tuning.h"
#include "train/fine_tuning.h"

namespace stowage::tools {

Positions CountPositions(const Tuning& tuning) {
  Positions positions;
  if (const auto* const split = std::get_if<LabeledSplit>(&tuning.data)) {
    for (const int64_t tokens : TextLengths(*split, split->train)) {
      positions.computed +=
          tuning.lengths[ShortestThatHolds(tuning.lengths, tokens)];
      positions.if_padded += tuning.lengths.front();
      positions.tokens += tokens;
    }
    return positions;
  }
  const auto* const split = std::get_if<ExampleSplit>(&tuning.data);
  if (split == nullptr) return positions;
  const int64_t longest = tuning.lengths.front();
  for (const int64_t input : InputsOf(*split, split->train, longest)) {
    positions.computed +=
        split->sequences() *
        tuning.lengths[ShortestThatHolds(tuning.lengths, input)];
    positions.if_padded += split->sequences() * longest;
  }
  for (const size_t example : split->train) {
    for (int which = 0; which < split->sequences(); ++which) {
      positions.tokens +=
          std::min(split->Of(example, which).size() - 1, longest);
    }
  }
  if (tuning.model.options().packed) {
    positions.computed =
        longest * std::ssize(PackExamples(*split, split->train));
  }
  return positions;
}

namespace {

// A line on the positions that several lengths save.
std::string LengthsText(const Tuning& tuning) {
  if (tuning.lengths.size() == 1) return {};
  const Positions positions = CountPositions(tuning);
  std::string lengths;
  for (const int64_t length : tuning.lengths) {
    lengths += StrCat(lengths.empty() ? "" : ", ", length);
  }
  return StrCat("finetune: sequences of ", lengths, " tokens: a pass has ",
                positions.computed, " positions, ", positions.if_padded,
                " if all were as long as the "
                "longest\n");
}

// The labels, what became of the texts, and dropouts that take memory.
std::string ClassifierText(const Tuning& tuning, const LabeledSplit& split) {
  const EncoderConfig& encoder = *tuning.model.base().encoder();
  std::string text = StrCat(
      "finetune: ", split.texts.size(), " texts of ", encoder.labels.size(),
      " labels, ", split.cut, " cut and ", split.dropped, " dropped at ",
      split.seq, " tokens; ", split.held_out.size(), " are held out\n");
  const std::vector<std::string>& head = tuning.model.base().new_params();
  if (!head.empty()) {
    text += StrCat("finetune: the file has no head for these labels; ",
                   Named(head), " begin as the seed says\n");
  }
  if (const auto& unread = tuning.model.base().unread(); !unread.empty()) {
    text += StrCat("finetune: of another head, and not read: ", Named(unread),
                   "\n");
  }
  const EncoderDropout& dropout = encoder.dropout;
  text += StrCat("finetune: dropouts: hidden ", dropout.hidden, ", attention ",
                 dropout.attention, ", classifier ", dropout.classifier, "\n");
  if (dropout.attention > 0) {
    text +=
        "finetune: with a dropout of attention, its probabilities are values "
        "of the step; --attention-dropout 0 stores none\n";
  }
  return text;
}

}  // namespace

std::string TuningText(const Tuning& tuning) {
  std::string text;
  if (const std::string& rates = tuning.model.base().model().dropouts;
      !rates.empty()) {
    text = StrCat("finetune: config.json trains with ", rates,
                  ", which is not applied here; --lora-dropout is\n");
  }
  if (const auto* const split = std::get_if<LabeledSplit>(&tuning.data)) {
    return ClassifierText(tuning, *split) + LengthsText(tuning);
  }
  const auto* const split = std::get_if<ExampleSplit>(&tuning.data);
  if (split == nullptr) return text;
  text += StrCat("finetune: ", split->size(),
                 split->kind == ExampleKind::kPairs ? " pairs of answers, "
                                                    : " examples, ",
                 split->cut, " cut and ", split->dropped, " dropped at ",
                 split->seq, " tokens; ", split->held_out.size(),
                 " are held out\n");
  if (split->cut_with_partner > 0) {
    text += StrCat("finetune: ", split->cut_with_partner,
                   " prompts with the answer to another one are cut\n");
  }
  if (tuning.model.options().packed) {
    const Positions positions = CountPositions(tuning);
    return text + StrCat("finetune: packed into ",
                         positions.computed / tuning.lengths.front(),
                         " sequences: a pass has ", positions.computed,
                         " positions for ", positions.tokens, " tokens, ",
                         positions.if_padded, " if each were a sequence\n");
  }
  return text + LengthsText(tuning);
}

}  // namespace stowage::tools
