#ifndef STOWAGE_TOOLS_TOKEN_TASK_H_
#define STOWAGE_TOOLS_TOKEN_TASK_H_

// Provides tasks (tools/task.h) for models that read tokens. The data of a task are windows of a
// text or of files of tokens (data/token_shards.h), examples with a prompt and a completion,
// preferences (nn/losses.h), labeled texts for a classifier (nn/encoder.h), or queries with
// documents for an embedding model (nn/contrastive.h).
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

/// Returns the task for the data of `tuning`. `tuning` must outlive the task. For examples, the
/// loss of a batch is the mean over the tokens that the model learns to predict, the seed
/// determines a different order for every pass, and the sequence length of a batch is the shortest
/// of Tuning::lengths in which all its examples fit. Propagates errors of MakeShardTask and
/// MakeEmbeddingTask.
Result<std::unique_ptr<Task>> MakeTokenTask(const Tuning& tuning, int64_t batch,
                                            uint64_t seed,
                                            const TaskShare& share = {});

/// Returns a task over windows of files of tokens. Windows are read from the files for each batch.
/// The seed and the step number determine the windows of a step, which can begin anywhere in the
/// training set. No window extends over two files. An evaluation runs at most `evaluation_batches`
/// batches of adjacent windows of the validation set. Returns kInvalidArgument if the training or
/// the validation set has fewer than `seq` + 1 tokens.
Result<std::unique_ptr<Task>> MakeShardTask(
    std::shared_ptr<const TokenShards> shards, int64_t batch, int64_t seq,
    uint64_t seed, int64_t evaluation_batches = kEvaluationBatches,
    const TaskShare& share = {});

/// Returns a task over the preferences of `tuning`: pairs of answers to one prompt, or answers that
/// are labeled good or bad. `tuning` must outlive the task. The accuracy is the fraction of
/// examples with a positive margin (PreferenceResults::margins). The model must have a preference
/// loss, and the data must be examples.
std::unique_ptr<Task> MakePreferenceTask(const Tuning& tuning, int64_t batch,
                                         uint64_t seed, const TaskShare& share);

/// Returns a task over the labeled texts of `tuning`. The data of `tuning` must be labeled texts,
/// and `tuning` must outlive the task. An evaluation returns the mean cross-entropy of the
/// validation set, its accuracy and Metric::kF1Macro.
std::unique_ptr<Task> MakeClassifyTask(const Tuning& tuning, int64_t batch,
                                       uint64_t seed, const TaskShare& share);

/// Returns a task over the queries and documents of `tuning`. The data of `tuning` must be queries
/// with documents, and `tuning` must outlive the task. Each pass orders the examples differently.
/// It consists of full batches and omits the remaining examples, so that no batch contains an
/// example twice. An evaluation embeds the validation set. Its loss is the mean over groups of
/// `batch` examples. Its accuracy is the fraction of queries whose own document is the most similar
/// one in the validation set (recall at 1). "mrr" is the mean reciprocal rank. Returns
/// kInvalidArgument if the batch is larger than the training set, or if a batch of one example has
/// no negatives.
Result<std::unique_ptr<Task>> MakeEmbeddingTask(const Tuning& tuning,
                                                int64_t batch, uint64_t seed,
                                                const TaskShare& share);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TOKEN_TASK_H_
