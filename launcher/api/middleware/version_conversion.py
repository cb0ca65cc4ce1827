"""Decides for each request whether its API version differs from the stored one, and how it is converted."""

from aiohttp import web
from aiohttp.typedefs import Handler

from launcher.api.http.api_group_alias import AliasConversion
from launcher.api.http.version_conversion import JobVersionConversion, set_conversion
from launcher.api.middleware.request_info import request_info


@web.middleware
async def version_conversion_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Stores the conversion of a request to another API version than the stored one."""
    resource = request_info(request).api_resource
    if resource is not None and resource.stored_as is not None:
        alias = resource.is_alias
        set_conversion(
            request, AliasConversion() if alias else JobVersionConversion(resource.kind, resource.stored_as)
        )
    return await handler(request)
