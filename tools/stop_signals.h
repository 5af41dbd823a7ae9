#ifndef STOWAGE_TOOLS_STOP_SIGNALS_H_
#define STOWAGE_TOOLS_STOP_SIGNALS_H_

// Stops a run on signals. StopSignals records SIGINT, SIGTERM, SIGHUP and SIGPIPE, which the run
// checks between steps. StoppableOutput replaces the buffer of stdout or stderr. Before a signal,
// writes to a pipe or terminal block as usual. After a signal, they block for at most kGrace in
// total, and further output is dropped. The run can therefore save a checkpoint even if nobody
// reads its output.
//
//   StoppableOutput out(std::cout, STDOUT_FILENO);
//   {
//     const StopSignals stop;
//     while (stop.caught() == 0) ...   // a step, and a line of the log
//   }

#include <chrono>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace stowage::tools {

class StopSignals {
 public:
  /// Catches the signals for the lifetime of the object. Ignored signals, such as SIGHUP under
  /// nohup, stay ignored, except for SIGPIPE. A second SIGINT, SIGTERM or SIGHUP ends the process
  /// immediately. At most one object may exist at a time.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the number of the first signal that was caught, or 0 if there was none.
  static int caught();
};

/// Returns "SIGINT", "SIGTERM", "SIGPIPE" or "SIGHUP".
const char* SignalName(int number);

class StoppableOutput : public std::streambuf {
 public:
  /// The total time for which a stream waits for its reader after a signal.
  static constexpr std::chrono::milliseconds kGrace{200};

  /// Replaces the buffer of `stream`, which writes to `descriptor`, for the lifetime of the object.
  /// kGrace does not apply to files and devices. A terminal is line-buffered.
  StoppableOutput(std::ostream& stream, int descriptor);
  ~StoppableOutput() override;
  StoppableOutput(const StoppableOutput&) = delete;
  StoppableOutput& operator=(const StoppableOutput&) = delete;

  /// Flushes the stream. Does nothing if another thread is printing. Thread-safe.
  void TryFlush();

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  bool Append(std::string_view text);
  bool Flush();
  bool WaitForReader();
  void CountWait();

  std::ostream& stream_;
  std::streambuf* const before_;
  const bool is_file_, is_terminal_;
  const int own_;  // -1 if there is none
  const int descriptor_;
  std::mutex mutex_;
  std::string pending_;
  std::chrono::milliseconds waited_{0};
  bool drops_ = false;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_STOP_SIGNALS_H_
