#ifndef STOWAGE_GPU_STEP_GRAPHS_H_
#define STOWAGE_GPU_STEP_GRAPHS_H_

// A step as graphs that were captured once and are launched for every step: one, where it
// has no branches. Where it has, a graph ends at each of them. Its last kernel tells the
// host which body it is (EnqueueChoice in gpu/step_record.h); the host waits for that,
// launches what was captured of this body, and goes on with what follows.
//
//   stream   [graph: ... choice]          [body 1] [graph: ...]
//   host                         reads 1
//
// A choice of no body ends the step: of what follows, only the end is launched.
//
//   StepGraphs graphs(device, stream);
//   Status captured = graphs.Capture([&] {
//     ...                                      // work given to the stream
//     graphs.Branch(2, [&](size_t body) { ... });
//     ...
//     graphs.End();
//     ...                                      // what tells the host of the step
//     return Status();
//   });
//   Status launched = graphs.Launch(chosen);
//
// Bodies may have branches of their own.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"

namespace stowage::gpu {

/// Of a step. What the device keeps of each is not in the plan.
inline constexpr size_t kMostGraphs = 4096;

class StepGraphs {
 public:
  /// `device` must outlive this.
  StepGraphs(Device& device, Stream stream)
      : device_(device), stream_(stream) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  /// Captures what `give` gives to the stream. Once. Errors: those of `give` and of the
  /// device.
  Status Capture(const std::function<Status()>& give);
  /// While `give` gives: what was given so far ends with the choice of one of so many
  /// bodies; `body` gives each of them to the stream, in order, and what is given
  /// from here on follows. Streams that have joined the capture must have been waited for.
  /// Errors: those of the device, kUnsupported for more than kMostGraphs graphs in all,
  /// after which nothing must be given any more.
  Status Branch(size_t bodies, const std::function<void(size_t)>& body);

  /// While `give` gives: what follows is the end, which is launched in any case. Errors as
  /// above.
  Status End();

  /// Gives all of it to the stream, and waits for each choice: `*chosen` is the body that
  /// it came to, and the step ends where there is none of this number. Allocates nothing.
  Status Launch(const uint32_t* chosen) const;

 private:
  // A graph, and the bodies of the branch that it ends with; none of the last one.
  struct Section {
    DeviceGraph graph;
    std::vector<std::vector<Section>> bodies = {};
  };

  Status BeginGraph();
  Status EndGraph();
  // Whether each choice was one.
  Result<bool> Launch(std::span<const Section> sections,
                      const uint32_t* chosen) const;
  void Destroy(const std::vector<Section>& sections);

  Device& device_;
  const Stream stream_;
  std::vector<Section> sections_;
  std::vector<Section>* into_ = &sections_;  // where the next graph goes
  bool is_capturing_ = false;
  size_t graphs_ = 0;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_STEP_GRAPHS_H_
