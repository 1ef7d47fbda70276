inflated(PARTS.head).then((head) => {
  DOCUMENT = head;
  DOCUMENT.calls.forEach((call) => call.steps.forEach((step) => { step.nodes = summed(step.nodes); }));
  render();
  document.body.dataset.ready = "1";
});
