// Material calls this for every page, also where it swaps pages without loading them.
document$.subscribe(() => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const source = element.textContent.trim();
    if (/^\\[([]/.test(source)) {
      // Leaves the source where it cannot be typeset, in red.
      katex.render(source.slice(2, -2), element, {
        displayMode: source.startsWith("\\["),
        throwOnError: false,
      });
    }
  }
});
