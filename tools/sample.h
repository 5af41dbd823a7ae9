#ifndef STOWAGE_TOOLS_SAMPLE_H_
#define STOWAGE_TOOLS_SAMPLE_H_

// Generates text with a trained model: samples, and answers in a chat.
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

/// Returns whether generated tokens cannot be decoded, because the data are files of tokens and no
/// tokenizer is given.
bool CannotDecode(const TrainFlags& flags, const StepSpec& spec);

/// Returns the number of positions of the caches for generation, or 0 if the command generates no
/// text.
int64_t SamplePositions(const TrainFlags& flags, const StepSpec& spec);

/// Returns the programs that generate text (train/generation.h), or none if `positions` is 0.
std::vector<ProgramSpec> SamplePrograms(const StepSpec& spec,
                                        int64_t positions);

/// Generates a text and prints it to stdout, after a line with `before` and the temperature.
/// `training` must have the programs of SamplePrograms. Propagates errors of Generator::Continue
/// and of the tokenizer.
Status PrintSample(const TrainFlags& flags, const StepSpec& spec,
                   Training& training, std::string_view before);

/// Answers each line of stdin until an empty line or the end of the input. The context of an answer
/// is the end of the conversation, up to the length of a sequence. `training` must have the
/// programs of SamplePrograms, and spec.tuning must have a chat template.
Status Chat(const TrainFlags& flags, const StepSpec& spec, Training& training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_SAMPLE_H_
