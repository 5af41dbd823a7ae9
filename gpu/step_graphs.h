#ifndef STOWAGE_GPU_STEP_GRAPHS_H_
#define STOWAGE_GPU_STEP_GRAPHS_H_

// A step that was captured once and is launched for every step: one graph, where it has no
// branches, or where graphs of the device hold them.
//
// Where they do not, a graph ends at each branch. Its last kernel tells the host which body
// it is (EnqueueChoice in gpu/step_record.h); the host waits for that, launches what was
// captured of this body, and goes on with what follows.
//
//   stream   [graph: ... choice]          [body 1] [graph: ...]
//   host                         reads 1
//
// A choice of no body ends the step there: of what follows, only the end is launched. In one
// graph, no body runs, and what follows does; what outlives a step is left to whoever gives
// it (DeviceQueue::UnlessFault in gpu/enqueue.h).
//
//   StepGraphs graphs(device, stream, StepGraphs::Branches::kByHost);
//   Status captured = graphs.Capture([&] {
//     ...                                      // work given to the stream
//     graphs.Branch({}, 2, [&](size_t body) { ... });
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

/// Of a step whose branches the host takes. What the device keeps of each is not in the
/// plan.
inline constexpr size_t kMaxGraphs = 4096;

class StepGraphs {
 public:
  enum class Branches {
    kInGraph,  // of a device that has them (Device::HasBranches)
    kByHost,
  };
  /// `device` must outlive this.
  StepGraphs(Device& device, Stream stream, Branches branches)
      : device_(device), stream_(stream), branches_(branches) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  Branches branches() const { return branches_; }

  /// Captures what `give` gives to the stream. Once. Errors: those of `give` and of the
  /// device.
  Status Capture(const std::function<Status()>& give);
  /// While `give` gives, kInGraph: the choice of a branch to come, for what is given before
  /// it to set.
  Result<GraphChoice> NewChoice();
  /// While `give` gives: one of so many bodies; `body` gives each of them to the stream, in
  /// order, and what is given from here on follows. What was given so far has set `choice`
  /// where the branch is in the graph, or ends with telling the host. Streams that have
  /// joined the capture must have been waited for. Errors: those of the device,
  /// kUnsupported for more than kMaxGraphs graphs in all, after which nothing must be given
  /// any more.
  Status Branch(GraphChoice choice, size_t bodies,
                const std::function<void(size_t)>& body);

  /// While `give` gives: what follows is the end, which is launched in any case. Errors as
  /// above.
  Status End();

  /// Gives all of it to the stream. kByHost: and waits for each choice: `*chosen` is the
  /// body that it came to, and the step ends where there is none of this number. Allocates
  /// nothing.
  Status Launch(const uint32_t* chosen) const;

 private:
  // A graph, and the bodies of the branch that it ends with; none of the last one.
  struct Section {
    DeviceGraph graph;
    std::vector<std::vector<Section>> bodies = {};
  };

  Status BeginGraph();
  Status EndGraph();
  Status BranchInGraph(GraphChoice choice, size_t bodies,
                       const std::function<void(size_t)>& body);
  Status BranchByHost(size_t bodies, const std::function<void(size_t)>& body);
  // Whether each choice was one.
  Result<bool> Launch(std::span<const Section> sections,
                      const uint32_t* chosen) const;
  void Destroy(const std::vector<Section>& sections);

  Device& device_;
  const Stream stream_;
  const Branches branches_;
  std::vector<Section> sections_;
  std::vector<Section>* into_ = &sections_;  // where the next graph goes
  bool is_capturing_ = false;
  size_t graphs_ = 0;
  Status in_graph_;  // of the branches so far
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_STEP_GRAPHS_H_
