#ifndef STOWAGE_TOOLS_STOP_SIGNALS_H_
#define STOWAGE_TOOLS_STOP_SIGNALS_H_

// SIGINT, SIGTERM and SIGHUP as a wish that a run can grant at a good moment, and SIGPIPE,
// which says that nobody reads stdout any more. The second of the former ends the process
// at once, as it would have without this.
//
//   const StopSignals stop;
//   while (stop.caught() == 0) ...   // finish the step, save

namespace stowage::tools {

class StopSignals {
 public:
  /// Catches the signals until this is gone. SIGHUP that is ignored, as under
  /// nohup, stays ignored. At most one at a time.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The number of the signal that came first; 0: none has.
  int caught() const;
};

/// "SIGINT", "SIGTERM", "SIGPIPE" or "SIGHUP".
const char* SignalName(int number);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_STOP_SIGNALS_H_
