#include "engine/ranks/overlapped_communicator.h"

namespace ft {

OverlappedCommunicator::OverlappedCommunicator(std::unique_ptr<Communicator> inner)
    : queue_(std::make_shared<WorkQueue>()), inner_(std::move(inner)), whole_(true) {}

OverlappedCommunicator::OverlappedCommunicator(std::shared_ptr<WorkQueue> queue,
                                               std::unique_ptr<Communicator> inner)
    : queue_(std::move(queue)), inner_(std::move(inner)) {}

OverlappedCommunicator::~OverlappedCommunicator() {
  if (whole_) queue_->stop();
}

Communicator& OverlappedCommunicator::idle() {
  queue_->wait_all();
  return *inner_;
}

Communicator::Ticket OverlappedCommunicator::start(Work work) {
  return queue_->give([this, work = std::move(work)] { work(*inner_); });
}

void OverlappedCommunicator::finish(Ticket ticket) { queue_->wait(ticket); }

void OverlappedCommunicator::abandon() {
  inner_->abandon();
  queue_->stop();
}

std::unique_ptr<Communicator> OverlappedCommunicator::split(RankSubset group) {
  auto part = idle().split(std::move(group));
  return std::unique_ptr<Communicator>(new OverlappedCommunicator(queue_, std::move(part)));
}

std::int64_t OverlappedCommunicator::sent() const {
  queue_->wait_all();
  return inner_->sent();
}

}  // namespace ft
