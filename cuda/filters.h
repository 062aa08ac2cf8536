// The CUDA backend's filters, one constructor each, with the signatures of BackendTable.
#pragma once

#include "filters/backend.h"

namespace vf::cuda {

Status make_gaussian(Queue& queue, const GaussianTask& task, std::unique_ptr<Plan>* out);
Status make_letterbox(Queue& queue, const LetterboxTask& task, std::unique_ptr<Plan>* out);
Status make_guided(Queue& queue, const GuidedTask& task, std::unique_ptr<GuidedPlan>* out);
Status make_median(Queue& queue, const MedianTask& task, std::unique_ptr<Plan>* out);

}  // namespace vf::cuda
