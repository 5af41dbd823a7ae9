#ifndef STOWAGE_TOOLS_SAMPLE_H_
#define STOWAGE_TOOLS_SAMPLE_H_

// Text that a model of text generates after training: samples, and answers in a chat.
//
//   training.programs = SamplePrograms(spec, SamplePositions(flags, spec));
//   Status printed = PrintSample(flags, spec, *training, "sample");

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/model_flags.h"
#include "tools/train_flags.h"
#include "train/training.h"

namespace stowage::tools {

/// Whether there is no tokenizer for the tokens of the data.
bool CannotDecode(const TrainFlags& flags, const StepSpec& spec);

/// The maximum tokens of a generated text that the model sees; 0 if it generates none.
int64_t SamplePositions(const TrainFlags& flags, const StepSpec& spec);

/// The programs that generate (train/generation.h); none for 0 positions.
std::vector<ProgramSpec> SamplePrograms(const StepSpec& spec,
                                        int64_t positions);

/// Prints a generated text, after `before`. Precondition: `training` has SamplePrograms.
Status PrintSample(const TrainFlags& flags, const StepSpec& spec,
                   Training& training, std::string_view before);

/// Answers each line of stdin, with the conversation so far as context, up to the length of a
/// sequence. Preconditions: `training` has SamplePrograms; a tuned model with a chat template.
Status Chat(const TrainFlags& flags, const StepSpec& spec, Training& training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_SAMPLE_H_
