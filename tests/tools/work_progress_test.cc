#include <doctest/doctest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tools/progress.h"

namespace stowage::tools {
namespace {

// A clock that stands still until it is moved.
struct Clock {
  WorkProgress::Time time = {};
  std::ostringstream out;

  WorkProgress::Options Options(bool is_terminal) {
    return {.out = &out, .is_terminal = is_terminal, .now = [this] {
              return time;
            }};
  }
  void Pass(int milliseconds) {
    time += std::chrono::milliseconds(milliseconds);
  }
  std::string Take() {
    std::string text = out.str();
    out.str("");
    return text;
  }
};

TEST_CASE("a terminal has one line, from the first second on, ten a second") {
  Clock clock;
  {
    WorkProgress progress("evaluating", "batches", clock.Options(true));
    progress.Show(1, 1200);
    clock.Pass(999);
    progress.Show(2, 1200);
    CHECK(clock.Take().empty());
    clock.Pass(1);
    progress.Show(3, 1200);
    CHECK(clock.Take() == "\revaluating: 3 of 1,200 batches\x1b[K");
    clock.Pass(99);
    progress.Show(4, 1200);
    CHECK(clock.Take().empty());
    clock.Pass(1);
    progress.Show(1100, 1200);
    CHECK(clock.Take() == "\revaluating: 1,100 of 1,200 batches\x1b[K");
  }
  CHECK(clock.Take() == "\r\x1b[K");
}

TEST_CASE("what is done within a second leaves nothing on a terminal") {
  Clock clock;
  {
    WorkProgress progress("writing", "characters", clock.Options(true));
    clock.Pass(999);
    progress.Show(1, 2);
    progress.Clear();
  }
  CHECK(clock.Take().empty());
}

TEST_CASE("a log has a line at 10, 20, 40, 80 seconds, and no signs") {
  Clock clock;
  WorkProgress progress("planning", "choices looked at", clock.Options(false));
  std::vector<int> at;
  for (int second = 1; second <= 100; ++second) {
    clock.Pass(1000);
    progress.Count();
    if (const std::string text = clock.Take(); !text.empty()) {
      at.push_back(second);
      CHECK(text ==
            "planning: " + std::to_string(second) + " choices looked at\n");
    }
  }
  progress.Clear();
  CHECK(clock.Take().empty());
  CHECK(at == std::vector{10, 20, 40, 80});
}

TEST_CASE("what several threads count at once is all counted") {
  Clock clock;
  WorkProgress progress("planning", "choices", clock.Options(true));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) progress.Count();
    });
  }
  for (std::thread& thread : threads) thread.join();
  clock.Pass(5000);
  progress.Count();
  CHECK(clock.Take() == "\rplanning: 4,001 choices\x1b[K");
}

}  // namespace
}  // namespace stowage::tools
