#ifndef STOWAGE_TOOLS_TOKEN_TASK_H_
#define STOWAGE_TOOLS_TOKEN_TASK_H_

// The tasks of models of tokens: windows of a text or of files of tokens (data/token_shards.h),
// examples of which a part is learned, preferences (nn/losses.h), labeled texts for an encoder
// that classifies (nn/encoder.h), and queries with documents for a model that embeds them
// (nn/contrastive.h).
//
//   Result<std::unique_ptr<Task>> task = MakeTokenTask(tuning, /*batch=*/4, seed);

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/token_shards.h"
#include "tools/model_flags.h"
#include "tools/task.h"
#include "tools/tuning.h"

namespace stowage::tools {

/// The task of the data of `tuning`, which must outlive it. For examples, the loss of a batch
/// is the mean over its learned tokens; every pass has another order by the seed, and a batch
/// has the shortest of the tuning's lengths that holds it. Errors: those of MakeShardTask and
/// MakeEmbeddingTask.
Result<std::unique_ptr<Task>> MakeTokenTask(const Tuning& tuning, int64_t batch,
                                            uint64_t seed,
                                            const TaskShare& share = {});

/// Windows of files of tokens, read when they are needed. A step draws its windows by the seed
/// and its number from all places of the training set; no window crosses two files. An
/// evaluation takes at most `evaluation_batches` batches of adjacent windows of the validation
/// set. Error kInvalidArgument: a set is shorter than a window of `seq` tokens and the next.
Result<std::unique_ptr<Task>> MakeShardTask(
    std::shared_ptr<const TokenShards> shards, int64_t batch, int64_t seq,
    uint64_t seed, int64_t evaluation_batches = kEvaluationBatches,
    const TaskShare& share = {});

/// Pairs of answers to one prompt, or answers that are good or bad, of `tuning`, which must
/// outlive the task. The accuracy is the fraction of examples whose preference the model
/// shares. Precondition: the model has a preference, and the data are examples.
std::unique_ptr<Task> MakePreferenceTask(const Tuning& tuning, int64_t batch,
                                         uint64_t seed, const TaskShare& share);

/// The labeled texts of `tuning`, which must outlive the task. An evaluation returns the mean
/// cross-entropy of the validation set, its accuracy and Metric::kF1Macro. Precondition: the
/// tuning has labeled texts.
std::unique_ptr<Task> MakeClassifyTask(const Tuning& tuning, int64_t batch,
                                       uint64_t seed, const TaskShare& share);

/// The queries and documents of `tuning`, which must outlive the task. No batch has an example
/// twice: a pass has the whole batches of the training set, in another order each time, and
/// leaves the rest out. An evaluation embeds the validation set. Its loss is the mean over groups
/// of `batch` examples; the accuracy is the fraction of queries whose document is the most
/// similar of all of the validation set (recall at 1), and "mrr" the mean reciprocal rank. Error
/// kInvalidArgument: a batch above the training set, or of one example without negatives.
/// Precondition: the tuning has them.
Result<std::unique_ptr<Task>> MakeEmbeddingTask(const Tuning& tuning,
                                                int64_t batch, uint64_t seed,
                                                const TaskShare& share);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TOKEN_TASK_H_
