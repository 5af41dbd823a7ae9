#ifndef STOWAGE_ADMISSION_ADMISSION_H_
#define STOWAGE_ADMISSION_ADMISSION_H_

// The umbrella header of admission/: jobs that reserve their planned bytes of a device or
// of a cgroup before they start.

#include "admission/job_record.h"  // IWYU pragma: export
#include "admission/ledger.h"      // IWYU pragma: export

#endif  // STOWAGE_ADMISSION_ADMISSION_H_
