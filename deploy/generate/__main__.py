"""
Write the CRDs, the components of the job kinds and the Helm chart: ``python -m deploy.generate``.

The CRD of Frameworks is made from ``schemas/framework.schema.json``: write that first.
"""

from deploy.generate import chart, framework_crd, job_components

framework_crd.CRD_FILE.write_text(framework_crd.crd_text())
for path, text in job_components.component_files().items():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
# From the files above.
chart.write_chart()
