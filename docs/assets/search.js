// The search finds nothing for a query with a word that its index leaves out, such as "load a checkpoint": these words are dropped.
(() => {
  const dropped = /(^|\s)(a|an|and|are|as|at|be|by|can|do|for|from|how|i|in|is|it|my|of|on|or|the|to|what|which|with)(?=\s)/gi;
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    if (typeof message?.data === "string") message = { ...message, data: message.data.replace(dropped, "$1") };
    return post.call(this, message, ...rest);
  };
})();
