#ifndef STOWAGE_TOOLS_PROGRESS_H_
#define STOWAGE_TOOLS_PROGRESS_H_

// The progress of a run on stderr: one line that is written over again on a
// terminal, about twenty lines of a log anywhere else. NO_COLOR is honoured.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace stowage::tools {

struct StepFigures {
  int64_t step = 0;  // counts from 1
  double epoch = 0;  // passes over the training part, this step included
  double loss = 0;
  double lr = 0;
  std::optional<double> grad_norm = {};  // where gradients are clipped by it
  double seconds = 0;
  double tokens_per_second = 0;
};

struct MemoryFigures {
  Bytes arena = 0;
  std::optional<Bytes> budget;
  Bytes lower_bound = 0;
  Bytes no_reuse = 0;

  Bytes saved() const { return no_reuse - arena; }
};

class Progress {
 public:
  /// For a run over steps first..last, whose speed is in `token_name` a second.
  Progress(int64_t first, int64_t last, std::string_view token_name,
           const MemoryFigures& memory);

  void Show(const StepFigures& figures);

 private:
  const int64_t first_, last_;
  const int64_t every_;  // lines of a log
  const bool terminal_, colour_;
  const std::string token_name_;
  const std::string memory_;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PROGRESS_H_
