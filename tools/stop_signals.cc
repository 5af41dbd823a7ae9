#include "tools/stop_signals.h"

#include <array>
#include <csignal>

namespace stowage::tools {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

volatile std::sig_atomic_t caught_signal = 0;
std::array<struct sigaction, kSignals.size()> before;

void Catch(int number) {
  if (caught_signal == 0) {
    caught_signal = number;
    return;
  }
  if (number == SIGPIPE) return;  // as often as something is written
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

StopSignals::StopSignals() {
  caught_signal = 0;
  struct sigaction action = {};
  action.sa_handler = Catch;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &before[i], nullptr);
  }
}

int StopSignals::caught() const { return caught_signal; }

const char* SignalName(int number) {
  switch (number) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGPIPE:
      return "SIGPIPE";
    default:
      return "SIGHUP";
  }
}

}  // namespace stowage::tools
