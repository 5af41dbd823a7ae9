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

/// Returns whether no tokenizer exists for the tokens of the data.
bool CannotDecode(const TrainFlags& flags, const StepSpec& spec);

/// Returns the maximum number of tokens of a generated text that the model reads, or 0 if no text
/// is generated.
int64_t SamplePositions(const TrainFlags& flags, const StepSpec& spec);

/// Returns the programs that generate text (train/generation.h), or none for 0 positions.
std::vector<ProgramSpec> SamplePrograms(const StepSpec& spec,
                                        int64_t positions);

/// Prints `before` and a generated text. `training` must have the programs of SamplePrograms.
Status PrintSample(const TrainFlags& flags, const StepSpec& spec,
                   Training& training, std::string_view before);

/// Answers each line of stdin. The conversation so far is the context, up to the length of a
/// sequence. `training` must have the programs of SamplePrograms, and the spec must have a
/// fine-tuned model with a chat template.
Status Chat(const TrainFlags& flags, const StepSpec& spec, Training& training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_SAMPLE_H_
