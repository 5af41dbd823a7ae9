#include "planner/fit/order/cut.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "base/index.h"
#include "planner/fit/min_cut.h"

namespace stowage::fit {
namespace {

enum class Side : uint8_t { kFree, kBefore, kAfter };

class Cutter {
 public:
  Cutter(const OrderProblem& problem, int32_t task)
      : problem_(problem), task_(task), sides_(problem.tasks.size()) {
    MarkAfter();
    MarkBefore(task, &sides_);
    sides_[Index(task)] = Side::kAfter;
  }

  OrderCut Cut() const {
    const OrderTask& t = problem_.tasks[Index(task_)];
    Bytes own = t.scratch;
    for (const int32_t made : t.makes) {
      own += problem_.contents[Index(made)].size;
    }
    OrderCut best = CutWith(sides_);
    // Having taken the place of a content saves its bytes, but then all of its
    // other readers have run.
    for (const int32_t content : t.may_replace) {
      const std::optional<std::vector<Side>> sides = WithReadersOf(content);
      if (!sides) continue;
      OrderCut cut = CutWith(*sides);
      cut.bytes -= problem_.contents[Index(content)].size;
      if (cut.bytes < best.bytes) best = std::move(cut);
    }
    best.bytes += own;
    return best;
  }

 private:
  void MarkAfter() {
    std::vector<std::vector<int32_t>> before(problem_.tasks.size());
    for (int32_t task = 0; task < problem_.num_tasks(); ++task) {
      for (const int32_t other : problem_.tasks[Index(task)].after) {
        before[Index(other)].push_back(task);
      }
    }
    std::vector<int32_t> stack = {task_};
    while (!stack.empty()) {
      const int32_t at = stack.back();
      stack.pop_back();
      for (const int32_t task : before[Index(at)]) {
        if (sides_[Index(task)] == Side::kAfter) continue;
        sides_[Index(task)] = Side::kAfter;
        stack.push_back(task);
      }
    }
  }

  // Marks what must run before `task`.
  void MarkBefore(int32_t task, std::vector<Side>* sides) const {
    std::vector<int32_t> stack = {task};
    while (!stack.empty()) {
      const int32_t at = stack.back();
      stack.pop_back();
      for (const int32_t other : problem_.tasks[Index(at)].after) {
        if ((*sides)[Index(other)] == Side::kBefore) continue;
        (*sides)[Index(other)] = Side::kBefore;
        stack.push_back(other);
      }
    }
  }

  // The sides when the task reads `content` last; none if it cannot be.
  std::optional<std::vector<Side>> WithReadersOf(int32_t content) const {
    const OrderContent& c = problem_.contents[Index(content)];
    if (c.kept) return std::nullopt;
    std::vector<Side> sides = sides_;
    for (const int32_t reader : c.readers) {
      if (reader == task_) continue;
      if (sides[Index(reader)] == Side::kAfter) return std::nullopt;
      MarkBefore(reader, &sides);
      sides[Index(reader)] = Side::kBefore;
    }
    return sides;
  }

  // What one content costs when it is alive between the two sides.
  struct Between {
    int maker;                 // a vertex
    std::vector<int> readers;  // vertices; empty when one is on the far side
    Bytes size;
  };

  OrderCut CutWith(const std::vector<Side>& sides) const {
    constexpr int kSource = 0;
    constexpr int kSink = 1;
    int count = 2;
    std::vector<int> vertices(sides.size(), kSource);
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides[i] == Side::kFree) vertices[i] = count++;
      if (sides[i] == Side::kAfter) vertices[i] = kSink;
    }
    Bytes always = 0;
    std::vector<Between> between;
    for (const OrderContent& content : problem_.contents) {
      Between b = {kSource, {}, content.size};
      if (content.maker >= 0) b.maker = vertices[Index(content.maker)];
      if (b.maker == kSink || content.size == 0) continue;
      bool outlives = content.kept;
      for (const int32_t reader : content.readers) {
        outlives = outlives || sides[Index(reader)] == Side::kAfter;
        if (sides[Index(reader)] == Side::kFree) {
          b.readers.push_back(vertices[Index(reader)]);
        }
      }
      if (outlives) b.readers.clear();
      if (outlives && b.maker == kSource) {
        always += content.size;
      } else if (outlives || !b.readers.empty()) {
        between.push_back(std::move(b));
      }
    }

    MinCut network(count + static_cast<int>(between.size()));
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides[i] != Side::kFree) continue;
      for (const int32_t other : problem_.tasks[i].after) {
        if (sides[Index(other)] != Side::kFree) continue;
        network.AddEdge(vertices[i], vertices[Index(other)], MinCut::kInfinite);
      }
    }
    for (const Between& b : between) {
      const int read = count++;
      network.AddEdge(b.maker, read, b.size);
      for (const int reader : b.readers) {
        network.AddEdge(read, reader, MinCut::kInfinite);
      }
      if (b.readers.empty()) {
        network.AddEdge(read, kSink, MinCut::kInfinite);
      }
    }
    OrderCut cut;
    cut.bytes = always + network.Solve(kSource, kSink);
    for (size_t i = 0; i < sides.size(); ++i) {
      cut.before.push_back(
          sides[i] == Side::kBefore ||
          (sides[i] == Side::kFree && network.is_source_side(vertices[i])));
    }
    return cut;
  }

  const OrderProblem& problem_;
  const int32_t task_;
  std::vector<Side> sides_;
};

}  // namespace

OrderCut CutAt(const OrderProblem& problem, int32_t task) {
  return Cutter(problem, task).Cut();
}

}  // namespace stowage::fit
