#ifndef STOWAGE_TOOLS_TOKEN_TASK_H_
#define STOWAGE_TOOLS_TOKEN_TASK_H_

// Batches of tokens for a published model: windows of a text or of files of tokens, or
// examples of which a part is to be learnt.
//
//   Result<std::unique_ptr<Task>> task = MakeTokenTask(tuning, /*batch=*/4, seed);

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/model_flags.h"
#include "tools/task.h"
#include "tools/train_flags.h"
#include "tools/tuning.h"
#include "train/training.h"

namespace stowage::tools {

/// `tuning` must outlive it. Of examples, the loss of a batch is the mean over its tokens
/// that are to be learnt; each pass over them has an order of its own, by the seed, and
/// each batch the shortest of the tuning's lengths that holds it. Errors: MakeShardTask's.
Result<std::unique_ptr<Task>> MakeTokenTask(const Tuning& tuning, int64_t batch,
                                            uint64_t seed,
                                            const TaskShare& share = {});

// What a model of text writes: samples, and answers in a conversation.

/// Whether nothing says what the tokens of the data spell.
bool CannotDecode(const TrainFlags& flags, const StepSpec& spec);

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

#endif  // STOWAGE_TOOLS_TOKEN_TASK_H_
