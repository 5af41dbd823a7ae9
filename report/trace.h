#ifndef STOWAGE_REPORT_TRACE_H_
#define STOWAGE_REPORT_TRACE_H_

// The plan as a trace that ui.perfetto.dev and chrome://tracing open: one row
// of slices for each phase of the step, one slice for each node, and a counter
// of live bytes with one series for each region. The plan knows no clock, so
// one node is drawn as one microsecond.
//
// The format is the "JSON Object Format" of the Trace Event Format document.

#include <string>

#include "report/numbers.h"

namespace stowage {

std::string ToChromeTrace(const Report& report);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TRACE_H_
