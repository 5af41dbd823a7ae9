#include "cluster/lifeline.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cluster/on_ranks.h"

namespace stowage::cluster {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// What a rank was told.
struct Told {
  std::atomic<int> calls{0};
  RankEnd end;
};

// Nothing but what ranks do is noticed: no beat is ever late.
LifelineOptions Patient(Told* told) {
  return {.beat = hours(1),
          .lost_after = hours(2),
          .on_end = [told](const RankEnd& end) {
            told->end = end;
            ++told->calls;
          }};
}

TEST_CASE("ranks that are all done part in peace") {
  std::vector<Told> told(3);
  std::vector<int> parted(3, 0);
  OnRanks(3, [&](Link& link) {
    RankCollectives collectives(link);
    const auto rank = static_cast<size_t>(link.rank());
    const auto line = Lifeline::Tie(collectives, Patient(&told[rank]));
    if (line.ok()) parted[rank] = (*line)->Untie() ? 1 : 0;
  });
  CHECK(parted == std::vector<int>{1, 1, 1});
  for (const Told& each : told) CHECK(each.calls == 0);
}

TEST_CASE("who goes when all are done is not lost") {
  std::vector<Told> told(3);
  std::atomic<int> coming{0}, gone{0};
  // Rank 0 is to be the last: its own thread still watches when the others go.
  const auto wait_for_others = [](const std::atomic<int>& count) {
    while (count < 2) std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(milliseconds(50));
  };
  OnRanks(3, [&](Link& link) {
    RankCollectives collectives(link);
    const auto rank = static_cast<size_t>(link.rank());
    auto line = Lifeline::Tie(collectives, Patient(&told[rank]));
    if (!line.ok()) return;
    if (rank == 0) {
      wait_for_others(coming);
      CHECK((*line)->Untie());
      wait_for_others(gone);
      CHECK_FALSE((*line)->broken());
      return;
    }
    ++coming;
    CHECK((*line)->Untie());
    line->reset();
    ++gone;
  });
  CHECK(told[0].calls == 0);
}

TEST_CASE("a rank whose connection closes is named at all others") {
  std::vector<Told> told(3);
  std::vector<int> parted(3, -1);
  OnRanks(3, [&](Link& link) {
    RankCollectives collectives(link);
    const auto rank = static_cast<size_t>(link.rank());
    auto line = Lifeline::Tie(collectives, Patient(&told[rank]));
    if (!line.ok() || rank == 2) return;  // which ends it
    parted[rank] = (*line)->Untie() ? 1 : 0;
    CHECK((*line)->broken());
  });
  CHECK(parted == std::vector<int>{0, 0, -1});
  for (const size_t rank : {0, 1}) {
    CHECK(told[rank].calls == 1);
    CHECK(told[rank].end.rank == 2);
    CHECK(told[rank].end.lost);
    CHECK(told[rank].end.why.starts_with("[cluster] rank 2 of 3, on "));
    CHECK(told[rank].end.why.ends_with(
        ", is lost: its connection has closed, as when its process dies"));
  }
  CHECK(told[2].calls == 0);
}

TEST_CASE("rank 0 is named by those it leaves") {
  std::vector<Told> told(2);
  OnRanks(2, [&](Link& link) {
    RankCollectives collectives(link);
    const auto rank = static_cast<size_t>(link.rank());
    auto line = Lifeline::Tie(collectives, Patient(&told[rank]));
    if (!line.ok() || rank == 0) return;
    CHECK_FALSE((*line)->Untie());
  });
  CHECK(told[1].calls == 1);
  CHECK(told[1].end.rank == 0);
}

TEST_CASE("a rank that gives up says why, and with which exit code") {
  for (const int quitter : {0, 1}) {
    std::vector<Told> told(3);
    OnRanks(3, [&](Link& link) {
      RankCollectives collectives(link);
      const auto rank = static_cast<size_t>(link.rank());
      auto line = Lifeline::Tie(collectives, Patient(&told[rank]));
      if (!line.ok()) return;
      if (link.rank() == quitter) {
        (*line)->GiveUp(2, "[file] there is none");
        return;
      }
      CHECK_FALSE((*line)->Untie());
    });
    CAPTURE(quitter);
    for (int rank = 0; rank < 3; ++rank) {
      const Told& each = told[static_cast<size_t>(rank)];
      if (rank == quitter) continue;
      CHECK(each.calls == 1);
      CHECK(each.end.rank == quitter);
      CHECK_FALSE(each.end.lost);
      CHECK(each.end.exit_code == 2);
      CHECK(each.end.why == "[file] there is none");
    }
  }
}

TEST_CASE("a rank that is silent for too long is lost") {
  std::vector<Told> told(2);
  OnRanks(2, [&](Link& link) {
    RankCollectives collectives(link);
    const auto rank = static_cast<size_t>(link.rank());
    LifelineOptions options = Patient(&told[rank]);
    if (rank == 0) options.lost_after = milliseconds(100);  // of rank 1's hour
    if (rank == 0) options.beat = milliseconds(10);
    auto line = Lifeline::Tie(collectives, options);
    if (!line.ok()) return;
    while (!(*line)->broken()) std::this_thread::sleep_for(milliseconds(1));
  });
  for (const Told& each : told) {  // rank 1 is told what is thought of it
    CHECK(each.calls == 1);
    CHECK(each.end.rank == 1);
    CHECK(each.end.why.find("nothing was heard of it for 0.1 s") !=
          std::string::npos);
  }
}

TEST_CASE("beats keep a rank alive that has nothing to say") {
  std::vector<Told> told(2);
  OnRanks(2, [&](Link& link) {
    RankCollectives collectives(link);
    const auto rank = static_cast<size_t>(link.rank());
    LifelineOptions options = Patient(&told[rank]);
    options.beat = milliseconds(5);
    options.lost_after = milliseconds(2000);
    auto line = Lifeline::Tie(collectives, options);
    if (!line.ok()) return;
    // Longer than a rank may be silent.
    std::this_thread::sleep_for(milliseconds(2500));
    CHECK((*line)->Untie());
  });
  CHECK(told[0].calls + told[1].calls == 0);
}

// A process that holds all ranks is stopped for longer than a rank may be silent.
TEST_CASE("a run that is suspended as a whole and continued goes on") {
  const pid_t run = fork();
  REQUIRE(run >= 0);
  if (run == 0) {
    std::vector<Told> told(2);
    std::atomic<int> in_peace{0};
    OnRanks(2, [&](Link& link) {
      RankCollectives collectives(link);
      LifelineOptions options =
          Patient(&told[static_cast<size_t>(link.rank())]);
      options.beat = milliseconds(20);
      options.lost_after = milliseconds(500);
      auto line = Lifeline::Tie(collectives, options);
      if (!line.ok()) return;
      std::this_thread::sleep_for(milliseconds(2500));
      in_peace += (*line)->Untie();
    });
    _exit(in_peace == 2 && told[0].calls + told[1].calls == 0 ? 0 : 1);
  }
  std::this_thread::sleep_for(milliseconds(300));
  CHECK(kill(run, SIGSTOP) == 0);
  std::this_thread::sleep_for(milliseconds(1200));
  CHECK(kill(run, SIGCONT) == 0);
  int status = 0;
  REQUIRE(waitpid(run, &status, 0) == run);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

// What a rank is told of where rank 0 listens: its port, once it is known.
class Overhearing : public Link {
 public:
  Overhearing(Link& link, std::function<void(int port)> hear)
      : link_(link), hear_(std::move(hear)) {}
  int rank() const override { return link_.rank(); }
  int ranks() const override { return link_.ranks(); }
  bool Exchange(std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming) noexcept override {
    if (!link_.Exchange(outgoing, incoming)) return false;
    for (const Incoming& each : incoming) {
      if (each.from != 0 || each.bytes.size() < 20 || !hear_) continue;
      std::istringstream words(std::string(
          reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size()));
      std::string token;
      int port = 0;
      if (words >> token >> port) std::exchange(hear_, {})(port);
    }
    return true;
  }
  int64_t bytes_sent() const override { return link_.bytes_sent(); }
  std::string failure() const override { return link_.failure(); }

 private:
  Link& link_;
  std::function<void(int port)> hear_;
};

// Connects to this host, says `words`, and stays.
int Visit(int port, std::string_view words) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  CHECK(::send(socket, words.data(), words.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(words.size()));
  return socket;
}

// As many ranks as `told` meet and part; the second learns the port that the first
// listens at, and gives it to `visit`. Returns 1 for each that has parted as it should.
std::vector<int> Meet(const std::function<void(int)>& visit,
                      std::vector<Told>* told) {
  std::vector<int> parted(told->size(), 0);
  OnRanks(static_cast<int>(told->size()), [&](Link& link) {
    const auto rank = static_cast<size_t>(link.rank());
    Overhearing overhearing(link,
                            rank == 1 ? visit : std::function<void(int)>());
    RankCollectives collectives(overhearing);
    const auto line = Lifeline::Tie(collectives, Patient(&(*told)[rank]));
    if (line.ok()) parted[rank] = (*line)->Untie() ? 1 : 0;
  });
  return parted;
}

TEST_CASE("strangers who connect are turned away, and nobody waits for them") {
  std::vector<Told> told(3);
  std::vector<int> visitors;
  const auto visit = [&](int port) {
    // Silent ones: each would be waited for for 3 s, all for longer than a meeting.
    for (int i = 0; i < 12; ++i) visitors.push_back(Visit(port, ""));
    visitors.push_back(Visit(port, "GET / HTTP/1.1\r\nHost: rank0\r\n\r\n"));
    visitors.push_back(Visit(port, std::string(16, '\0')));
    // A greeting of rank 1, without the token.
    const uint32_t greeting[4] = {0, 1, 0, 20};
    std::string hello(reinterpret_cast<const char*>(greeting), 16);
    visitors.push_back(Visit(port, hello + std::string(20, 'a')));
    // And half of one.
    visitors.push_back(Visit(port, hello + "aaa"));
  };
  const std::vector<int> parted = Meet(visit, &told);
  CHECK(visitors.size() == 16);
  CHECK(parted == std::vector<int>{1, 1, 1});
  for (const Told& each : told) CHECK(each.calls == 0);
  for (const int socket : visitors) ::close(socket);
}

TEST_CASE("more silent strangers than a process has descriptors end nothing") {
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  pid_t visitor = -1;
  const auto visit = [&](int port) {  // as another process
    int ready[2];
    REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
    visitor = fork();
    if (visitor == 0) {
      sockaddr_in to = {};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<uint16_t>(port));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      setrlimit(RLIMIT_NOFILE, &before);
      for (int i = 0; i < 200; ++i) {
        const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
        if (::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to)) !=
            0) {
          _exit(1);
        }
      }
      close(ready[1]);
      while (true) pause();
    }
    close(ready[1]);
    char byte;
    CHECK(read(ready[0], &byte, 1) == 0);  // all are there
    close(ready[0]);
  };
  std::vector<Told> told(2);
  const std::vector<int> parted = Meet(visit, &told);
  setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(visitor > 0);
  kill(visitor, SIGKILL);
  int status = 0;
  CHECK(waitpid(visitor, &status, 0) == visitor);
  CHECK(WIFSIGNALED(status));
  CHECK(parted == std::vector<int>{1, 1});
}

void Ignore(int) {}

// To every thread of this process.
void SignalAll() {
  namespace fs = std::filesystem;
  for (const fs::directory_entry& task :
       fs::directory_iterator("/proc/self/task")) {
    const int thread = std::atoi(task.path().filename().c_str());
    syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
  }
}

TEST_CASE("signals that come while ranks meet and watch change nothing") {
  struct sigaction action = {};
  action.sa_handler = Ignore;  // without SA_RESTART
  struct sigaction before = {};
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);
  std::vector<Told> told(2);
  std::vector<int> parted(2, 0);
  // While rank 0 waits for another, and when both watch.
  const auto wait = [](int) {
    for (int i = 0; i < 20; ++i) {
      SignalAll();
      std::this_thread::sleep_for(milliseconds(1));
    }
  };
  OnRanks(2, [&](Link& link) {
    const auto rank = static_cast<size_t>(link.rank());
    Overhearing late(link, rank == 1 ? wait : std::function<void(int)>());
    RankCollectives collectives(late);
    auto line = Lifeline::Tie(collectives, Patient(&told[rank]));
    if (!line.ok()) return;
    if (rank == 1) wait(0);
    parted[rank] = (*line)->Untie() ? 1 : 0;
  });
  sigaction(SIGUSR1, &before, nullptr);
  CHECK(parted == std::vector<int>{1, 1});
  CHECK(told[0].calls + told[1].calls == 0);
}

}  // namespace
}  // namespace stowage::cluster
