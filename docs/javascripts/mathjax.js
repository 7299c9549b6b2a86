window.MathJax = {
  tex: {
    inlineMath: [["\\(", "\\)"]],
    displayMath: [["\\[", "\\]"]],
  },
  options: { ignoreHtmlClass: ".*|", processHtmlClass: "arithmatex" },
};

// Material swaps pages without loading them: typeset again.
document$.subscribe(() => {
  MathJax.startup.output?.clearCache?.();
  MathJax.typesetClear?.();
  MathJax.texReset?.();
  MathJax.typesetPromise?.();
});
