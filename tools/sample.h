#ifndef STOWAGE_TOOLS_SAMPLE_H_
#define STOWAGE_TOOLS_SAMPLE_H_

// What a model of text writes: samples, and answers in a conversation.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/model_flags.h"
#include "tools/train_flags.h"
#include "train/training.h"

namespace stowage::tools {

/// Tokens of a text that the model sees when it writes; 0 where it does not.
int64_t SamplePositions(const TrainFlags& flags, const StepSpec& spec);

/// What it writes with (train/generation.h); none for 0 positions.
std::vector<ProgramSpec> SamplePrograms(const StepSpec& spec,
                                        int64_t positions);

/// Prints what the model writes, after `before`. Precondition: `training` has these
/// programs.
Status PrintSample(const TrainFlags& flags, const StepSpec& spec,
                   Training& training, std::string_view before);

/// Answers each line of stdin, and knows what was said before, as far as a sequence
/// reaches. Preconditions: the same; a model that is tuned, with a chat template.
Status Chat(const TrainFlags& flags, const StepSpec& spec, Training& training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_SAMPLE_H_
