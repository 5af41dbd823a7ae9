#include "stowage/stowage.h"
using namespace stowage;

// Trains up to step `last`, from the checkpoint at `path` on where there is one.
Status TrainTo(int64_t last, Session& session, const std::string& path) {
  Runner& train = session.front();  // checkpoints are of a runner's graph
  session.Initialize(/*seed=*/1);
  int64_t done = 0;
  const Result<int64_t> saved = LoadCheckpoint(train, path);
  if (saved.ok()) {
    done = *saved;
  } else if (saved.error().code != ErrorCode::kNotFound) {
    return saved.error();  // damaged, or of another model; nothing was loaded
  }
  for (int64_t i = done + 1; i <= last; ++i) {
    STOWAGE_RETURN_IF_ERROR(train.Write("step", i));
    const StepCode code = train.Step();
    if (code != StepCode::kOk) return train.Explain(code);
    if (i % 100 != 0 && i != last) continue;
    STOWAGE_RETURN_IF_ERROR(SaveCheckpoint(train, path, i));
  }
  return SaveWeights(train, path + ".weights.npz");  // for other programs
}
